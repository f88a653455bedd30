// SPDX-License-Identifier: Apache-2.0
/// Whether a directory, or a part of one, is of torch_checkpointing: by its table, or by the names
/// of files and what the first ones have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/local/directory.h"
#include "storage/small_file.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// "model", 3 and ".pt" of "model_3.pt", as the program calls the files of items.
struct ItemFileName {
  std::string item{};
  std::int64_t rank = 0;
  std::string_view extension{};

  bool is_torch() const noexcept { return extension == ".pt"; }
};

/// nullopt: it is no such name.
std::optional<ItemFileName> parse_item_file(std::string_view name);

/// The names of items' files, by their ranks.
using NamesByItem = std::map<std::string, std::map<std::int64_t, std::string>>;

/// Files of torch.save of items that have one of rank 0, or several of the ranks that another item
/// has from rank 0 on; others are of other programs.
NamesByItem list_items(const std::vector<DirectoryEntry>& entries);

/// The table of a directory, be it damaged or not; nullopt: there is none of the program.
/// @throws Error as open_small_file() and list_directory().
std::optional<SmallFile> find_item_table(const std::filesystem::path& directory,
                                         const SourceTreePtr& tree);

/// Whether the directory has files of the program without a table: those of rank 0, with DTensors
/// that state their parts, or with the same tensors as those of rank 1.
/// @throws Error kIo, and as list_directory().
bool has_item_files(const std::filesystem::path& directory, const SourceTreePtr& tree);

/// Refuses a part of a set that was named instead of the set: a file of it, or a directory in it.
/// @throws Error kBadInput with the directory to name.
void refuse_item_part(const std::filesystem::path& source);

}  // namespace reshardfs
