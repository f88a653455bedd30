// SPDX-License-Identifier: Apache-2.0
/// The steps that a checkpoint directory holds, judged by the names of its files alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/rank_files.h"
#include "checkpoint/series/step.h"

namespace reshardfs {

struct StepInfo {
  std::string name;         ///< "9_50"; never empty
  std::vector<Rank> ranks;  ///< that have files of it, ascending
  /// Every rank that has any step has this one, with all parts of its file, and none is still
  /// being written.
  bool complete = false;
};

/// Those of `wanted` that have no file of the step, ascending. A set that has none of these ranks
/// counts its ranks from 0.
std::vector<Rank> ranks_without(const StepInfo& step, const RankRange& wanted);

/// The steps of a checkpoint directory or file, oldest first; none if the names carry no steps.
/// `options.step` does not matter.
/// @throws Error as CheckpointSet::open() does before it opens any file.
std::vector<StepInfo> find_steps(const std::filesystem::path& path,
                                 const CheckpointOptions& options);

/// The files of one rank by step; files without a step are under the empty name.
using FilesByStep = std::map<std::string, std::vector<FoundFile>, OlderStep>;
using FilesByRank = std::map<Rank, FilesByStep>;

FilesByRank group_by_rank(const std::vector<FoundFile>& files);
std::vector<StepInfo> describe_steps(const std::filesystem::path& root, const RankFiles& found);

}  // namespace reshardfs
