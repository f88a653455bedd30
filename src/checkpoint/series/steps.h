// SPDX-License-Identifier: Apache-2.0
/// The steps in a checkpoint directory, according to the names of its files.
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
  std::vector<Rank> ranks;  ///< ranks with files of the step, ascending
  /// Every rank that has any step has this one, with all parts of its file, and no file is still
  /// being written.
  bool complete = false;
  /// Directories that have files of this step alone, or its files.
  std::vector<std::filesystem::path> places{};
  /// Of files on a server, the newest time in its list, nanoseconds since the epoch; 0: not known.
  std::int64_t listed_mtime_ns = 0;
};

/// The ranks in `wanted` without a file of the step, ascending. If the set has none of these ranks,
/// its ranks count from 0.
std::vector<Rank> ranks_without(const StepInfo& step, const RankRange& wanted);

/// The steps of a checkpoint directory or file, oldest first; none if the names carry no steps.
/// `options.step` does not matter.
/// @throws Error as CheckpointSet::open() does before it opens any file.
std::vector<StepInfo> find_steps(const std::filesystem::path& path,
                                 const CheckpointOptions& options);

/// The files of one rank by step; files without a step have the empty key.
using FilesByStep = std::map<std::string, std::vector<FoundFile>, OlderStep>;
using FilesByRank = std::map<Rank, FilesByStep>;

FilesByRank group_by_rank(const std::vector<FoundFile>& files);
std::vector<StepInfo> describe_steps(const std::filesystem::path& root, const RankFiles& found);

}  // namespace reshardfs
