// SPDX-License-Identifier: Apache-2.0
/// A whole model in several files, with a JSON file that states the file of each parameter:
/// MindSpore's unified directory, and the layouts of Hugging Face for safetensors and torch.save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

struct NameMapDirectory {
  std::filesystem::path map_file;
  /// Every file once, in the order of their names.
  std::vector<std::filesystem::path> files;
  /// Parameter names, and the indices of their files in `files`.
  std::vector<std::pair<std::string_view, std::size_t>> places;
  /// Has the names.
  std::shared_ptr<const void> names{};
  /// The names of other files in the directory that have the extension of these.
  std::vector<std::string> beside{};
  /// Other index files in the directory, whose files are another model or set.
  std::vector<std::string> other_indexes{};
  /// Whether the JSON file is an index as Hugging Face writes it.
  bool is_hub_index = false;
  /// An object that has its "metadata" alone, if it has any.
  std::string metadata{};
  /// Its metadata.total_size.
  std::optional<std::uint64_t> total_bytes{};
  /// Whether none of `files` is there: the index is of other files than the directory's.
  bool is_stale = false;
};

/// Reads the index of a directory: `param_name_map.json`, `model.safetensors.index.json` or
/// `pytorch_model.bin.index.json`, the first of them that is there, or else the only index of
/// another name. MindSpore's `hyper_param.safetensors` beside it is one of the files, though the
/// map does not name it.
/// @param tree of the directory, if symbolic links are refused.
/// @return nullopt if the directory has none.
/// @throws Error kBadInput if the map cannot be understood or names a file outside the directory,
///         or for a link if links are refused, or if there are several indexes and none of the
///         usual names; kMissing if some of the files that it names do not exist; kIo.
std::optional<NameMapDirectory> find_name_map(const std::filesystem::path& directory,
                                              const SourceTreePtr& tree = nullptr);

/// @throws Error kMissing if the index is stale.
void require_files(const NameMapDirectory& map);

/// Reads one index.
/// @throws Error as find_name_map().
NameMapDirectory read_name_map(const std::filesystem::path& index,
                               const SourceTreePtr& tree = nullptr);

}  // namespace reshardfs
