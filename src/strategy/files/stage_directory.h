// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "reshardfs/strategy.h"

#include "storage/source_tree.h"

namespace reshardfs {

/// Reads a directory that holds one strategy file for each pipeline stage (or one file alone,
/// which is then read as if it had been named).
/// @param tree what links are refused in, or nullptr.
/// @throws Error kMissing if there is none, kBadInput if they do not fit together, kIo.
Strategy load_stage_directory(const std::filesystem::path& path, const SourceTreePtr& tree);

/// The same for files that are named one by one.
/// @param where what messages call them together.
Strategy load_stage_files(const std::vector<std::filesystem::path>& paths,
                          const std::filesystem::path& where, const SourceTreePtr& tree = nullptr);

}  // namespace reshardfs
