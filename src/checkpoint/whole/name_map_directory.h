// SPDX-License-Identifier: Apache-2.0
/// A whole model in several safetensors files, with a JSON file that states the file of each
/// parameter: MindSpore's unified directory, and the layout of Hugging Face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

struct NameMapDirectory {
  std::filesystem::path map_file;
  /// Every file once, in the order of their names.
  std::vector<std::filesystem::path> files;
  /// Parameter names, and the indices of their files in `files`.
  std::vector<std::pair<std::string, std::size_t>> places;
  /// The names of other safetensors files in the directory.
  std::vector<std::string> beside{};
  /// Whether the JSON file is model.safetensors.index.json.
  bool is_hub_index = false;
  /// Its metadata.total_size.
  std::optional<std::uint64_t> total_bytes{};
};

/// Reads `param_name_map.json` or `model.safetensors.index.json` of a directory. MindSpore's
/// `hyper_param.safetensors` beside it is one of the files, though the map does not name it.
/// @param tree of the directory, if symbolic links are refused.
/// @return nullopt if the directory has neither.
/// @throws Error kBadInput if the map cannot be understood or names a file outside the directory,
///         or for a link if links are refused; kMissing if a file that it names does not exist;
///         kIo.
std::optional<NameMapDirectory> find_name_map(const std::filesystem::path& directory,
                                              const SourceTreePtr& tree = nullptr);

}  // namespace reshardfs
