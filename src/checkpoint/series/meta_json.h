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

/// MindFormers keeps a meta.json beside each rank's files, which names the last checkpoint that
/// was saved completely ("last_epoch", "last_step", "last_ckpt_file"). It is no authority here:
/// files are copied and removed without it.
/// @param files by rank.
/// @param tree what the files are opened in, if symbolic links are refused.
/// @return one line for each thing it says that is not `step`, or that cannot be understood.
std::vector<std::string> compare_with_meta(const std::map<Rank, std::filesystem::path>& files,
                                           const std::string& step, const SourceTreePtr& tree);

}  // namespace reshardfs
