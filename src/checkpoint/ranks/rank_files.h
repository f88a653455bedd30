// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

#include "checkpoint/dcp/described_content.h"
#include "checkpoint/ranks/path_pattern.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A file that a pattern has found.
struct FoundFile {
  Rank rank;
  std::string step;  ///< see step.h
  std::filesystem::path path;
  std::int64_t part = -1;  ///< see rank_parts.h
  /// What it is opened in, if symbolic links are refused.
  SourceTreePtr tree{};
  /// Set if the set's metadata tells what it has: nothing is then read from it to open it.
  std::shared_ptr<const DescribedContent> content{};
  /// The run of the training job that has saved it: see series.h. Empty: its name does not tell.
  std::string series{};
};

struct RankFiles {
  std::vector<FoundFile> files;
  /// Files that are being written, or were when the job died: see unfinished_names.h. Rank, step
  /// and part are those of the file that it is to become.
  std::vector<FoundFile> unfinished;
  /// The meta.json beside a rank's files (see meta_json.h).
  std::map<Rank, std::filesystem::path> meta_files;
  /// Ranks that have a directory, with or without files in it.
  std::set<Rank> ranks_with_directory;
  /// Those of the directories and files above that are symbolic links.
  std::vector<std::filesystem::path> links;
  /// Ranks of which only files of other series than the chosen one were found.
  std::set<Rank> ranks_of_other_series{};
};

/// All files below `root` that fit the pattern, in order of their paths.
/// @param tree of the root, if symbolic links are refused; nullptr: they are followed.
/// @throws Error kBadInput if two directories stand for one rank (rank_1 and rank_01), for a file
///         that is being downloaded in place, or if there is a link and links are refused; kIo.
RankFiles find_rank_files(const std::filesystem::path& root, const PathPattern& pattern,
                          const SourceTreePtr& tree = nullptr);

}  // namespace reshardfs
