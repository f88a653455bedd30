// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

#include "storage/source_tree.h"

namespace reshardfs {

/// MindFormers keeps a meta.json beside each rank's files, which names the last checkpoint that was
/// saved completely ("last_epoch", "last_step", "last_ckpt_file"). It is only used for warnings,
/// because files are copied and removed without it.
/// @param files by rank.
/// @param tree in which the files are opened, if symbolic links are refused.
/// @return one line for each file that names another step, or cannot be understood.
std::vector<std::string> compare_with_meta(const std::map<Rank, std::filesystem::path>& files,
                                           const std::string& step, const SourceTreePtr& tree);

}  // namespace reshardfs
