// SPDX-License-Identifier: Apache-2.0
/// A series: the files of all ranks that one run of a training job has saved, at one step after the
/// other. Files of two runs, or of two models, are never taken together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/rank_files.h"
#include "storage/source_tree.h"

namespace reshardfs {

struct SeriesInfo {
  std::string name;  ///< what --src-prefix takes
  /// Saved when a run failed: used only if the user names it, or if there is no other series.
  bool is_breakpoint = false;
  std::vector<std::string> steps;  ///< oldest first; files without a step in their names add none
  std::vector<Rank> ranks;         ///< ascending
  std::string newest_file;         ///< of the lowest rank
  std::int64_t mtime_ns = 0;       ///< of that file, see known_mtime_ns(); 0: not known
};

/// Sorted from the newest to the oldest, then by name. Reads the files' times from `tree` or the
/// file system.
std::vector<SeriesInfo> describe_series(const RankFiles& found, const SourceTreePtr& tree);

/// "step 3_100 of 2026-01-31T09:05:00Z on ranks 0-3"
std::string series_words(const SeriesInfo& series);

struct SeriesChoice {
  std::string name;                   ///< the one that was taken; empty: the files have none
  std::vector<std::string> warnings;  ///< about files that are not used
};

/// Removes all files except those of one series: the one that options.prefix names, or the only
/// one. The series of a failed run is used only if it is named, or if there is no other.
/// @throws Error kBadInput with all series if there are several and none is named; kMissing if no
///         series has that name.
SeriesChoice choose_series(const std::filesystem::path& root, const CheckpointOptions& options,
                           const SourceTreePtr& tree, RankFiles& found);

/// A line about ranks that have only files of other series; nullopt if there are none.
/// @param series see SeriesChoice::name
std::optional<std::string> ranks_without(const std::string& series, const RankFiles& found);

/// The series of a directory of ranks' files; none of other sources.
/// @throws Error as CheckpointSet::open() does before it opens any file.
std::vector<SeriesInfo> find_series(const std::filesystem::path& source,
                                    const CheckpointOptions& options);

/// The name of the series that the options choose; empty: the source has none.
/// @throws Error as above.
std::string chosen_series(const std::filesystem::path& source, const CheckpointOptions& options);

/// Refuses --src-prefix for a source that has no series.
/// @param what it is instead, after "the source is".
/// @throws Error kUsage if a prefix is given.
void refuse_prefix(const std::filesystem::path& source, const CheckpointOptions& options,
                   const std::string& what);

/// The error for a source with several series. @param option see CheckpointOptions::prefix_option
Error several_series(const std::filesystem::path& root, const std::vector<SeriesInfo>& all,
                     const std::string& option);

}  // namespace reshardfs
