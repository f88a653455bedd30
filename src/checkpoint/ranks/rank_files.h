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

/// A file that matches a pattern.
struct FoundFile {
  Rank rank;
  std::string step;  ///< see step.h
  std::filesystem::path path;
  std::int64_t part = -1;  ///< see rank_parts.h
  /// In which it is opened, if symbolic links are refused.
  SourceTreePtr tree{};
  /// Set if the set's metadata describes its contents. Opening the file then reads nothing from it.
  std::shared_ptr<const DescribedContent> content{};
  /// The run of the training job that saved it: see series.h. Empty: unknown.
  std::string series{};
};

struct RankFiles {
  std::vector<FoundFile> files;
  /// Files that are being written, or were when the job died: see unfinished_names.h. Rank, step
  /// and part are those of the finished file.
  std::vector<FoundFile> unfinished;
  /// The meta.json beside a rank's files (see meta_json.h).
  std::map<Rank, std::filesystem::path> meta_files;
  /// Ranks with a directory, which may be empty.
  std::set<Rank> ranks_with_directory;
  /// The directories and files above that are symbolic links.
  std::vector<std::filesystem::path> links;
  /// Ranks that have only files of other series than the chosen one.
  std::set<Rank> ranks_of_other_series{};
};

/// All files below `root` that fit the pattern, in order of their paths.
/// @param tree of the root, if symbolic links are refused; nullptr: they are followed.
/// @throws Error kBadInput if two directories belong to one rank (rank_1 and rank_01), a file is
///         being downloaded in place, or there is a link and links are refused; kIo.
RankFiles find_rank_files(const std::filesystem::path& root, const PathPattern& pattern,
                          const SourceTreePtr& tree = nullptr);

}  // namespace reshardfs
