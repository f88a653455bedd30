// SPDX-License-Identifier: Apache-2.0
/// Which files a directory of torch_checkpointing has: those that its table names, and
/// <item>_<rank>.pt of items that were saved without a resharder, which are in no table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/items/item_table.h"
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
};

/// The files of all ranks.
/// @param state_key selects the items that count; empty: all.
/// @throws Error as read_item_table(); kMissing if a file is not there; kBadInput for files of more
///         ranks than the table states, and for links that lead out of the directory.
ItemFiles find_item_files(const std::filesystem::path& directory, const SourceTreePtr& tree,
                          const std::string& state_key);

}  // namespace reshardfs
