// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/path_pattern.h"

namespace reshardfs {

/// A file that a pattern has found.
struct FoundFile {
  std::int64_t rank = 0;
  std::string step;  ///< see step.h
  std::filesystem::path path;
};

struct RankFiles {
  std::vector<FoundFile> files;
  /// Ranks that have a directory, with or without files in it.
  std::set<std::int64_t> ranks_with_directory;
};

/// All files below `root` that fit the pattern, in order of their paths.
/// @throws Error kBadInput if two directories stand for one rank (rank_1 and rank_01); kIo.
RankFiles find_rank_files(const std::filesystem::path& root, const PathPattern& pattern);

}  // namespace reshardfs
