// SPDX-License-Identifier: Apache-2.0
/// Which files make up a checkpoint set, judged by their names alone; none of them is opened.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/rank_files.h"

namespace reshardfs {

struct Discovery {
  std::vector<FoundFile> files;  ///< ascending by rank, each rank once, all of one step
  std::string step;              ///< empty: the names carry none
  std::vector<std::string> steps;
  std::vector<std::string> notes;
};

/// @throws Error as CheckpointSet::open() does.
Discovery discover(const std::filesystem::path& source, const CheckpointOptions& options);

}  // namespace reshardfs
