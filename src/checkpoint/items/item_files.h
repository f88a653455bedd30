// SPDX-License-Identifier: Apache-2.0
/// Which files a directory of torch_checkpointing has: those that its table names, and
/// <item>_<rank>.pt of items that were saved without a resharder, which are in no table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/items/item_table.h"
#include "checkpoint/series/set_age.h"
#include "storage/source_tree.h"

namespace reshardfs {

struct ItemFiles {
  bool has_table = false;
  std::int64_t world_size = 0;  ///< as the table states it, or by the names of files
  /// Those of the table first, without tensors that are in no table.
  std::vector<SavedItem> items{};
  std::size_t stated = 0;  ///< how many items the table has
  /// Items whose files have no tensors, with a file of each.
  std::vector<std::pair<std::string, std::string>> others{};
  WrittenLast table{};
};

/// "model" and 3 of "model_3.pt"; nullopt: the name is not one that the program gives.
std::optional<std::pair<std::string, std::int64_t>> parse_item_file(std::string_view name);

/// Whether the directory has a table of the program, be it damaged or not.
bool has_item_table(const std::filesystem::path& directory, const SourceTreePtr& tree);

/// Whether the directory has files of the program without a table: those of rank 0, with DTensors
/// that state their parts, or with the same tensors as those of rank 1.
bool has_item_files(const std::filesystem::path& directory, const SourceTreePtr& tree);

/// The files of all ranks.
/// @param selects the items that count; empty: all.
/// @throws Error as read_item_table(); kMissing if a file is not there; kBadInput for files of more
///         ranks than the table states, and for links that lead out of the directory.
ItemFiles find_item_files(const std::filesystem::path& directory, const SourceTreePtr& tree,
                          const std::string& state_key);

/// Refuses a part of a set that was named instead of the set: a file of it, or a directory in it.
/// @throws Error kBadInput with the directory to name.
void refuse_item_part(const std::filesystem::path& source);

}  // namespace reshardfs
