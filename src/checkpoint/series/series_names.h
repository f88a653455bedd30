// SPDX-License-Identifier: Apache-2.0
/// Distinguishes the files of different runs by their paths without rank, step and part. MindSpore
/// names a file PREFIX-EPOCH_STEP.ckpt, and the files of a second run in the same directory
/// PREFIX_1-EPOCH_STEP.ckpt; the names of files that it saves when a run fails end in
/// "_breakpoint.ckpt" (mindspore/train/callback/_checkpoint.py, mindspore/train/model.py).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/ranks/rank_files.h"
#include "checkpoint/series/step_directories.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Replaces the number of a rank in names.
inline constexpr std::string_view kRankPlace = "{rank}";

/// The file name without "_breakpoint" before its extension.
std::string without_breakpoint(std::string_view file_name);

/// The series of a file, which may still contain its rank.
/// @param shape see PathCaptures
std::string series_of_shape(std::string_view shape);

/// Replaces the file's rank in FoundFile::series with "{rank}". A number after the word "rank" is
/// always the rank. Elsewhere ("checkpoint_3") it is the rank only if every rank has its own
/// number, because "net_1" may be a second run.
void take_ranks_out_of_series(RankFiles& found);

/// Whether the files of the series were saved when a run failed.
bool is_breakpoint_series(std::string_view series);

/// The common prefix of the file names, "net" or "net_rank_{rank}"; for a series that was saved
/// when a run failed, followed by "_breakpoint".
std::string prefix_of_series(std::string_view series);

/// The same with the directories before it.
std::string path_of_series(std::string_view series);

/// "10" for "iter_0000010".
std::optional<std::string> parse_iter_directory(std::string_view name);

/// iter_0000010, ..., or release/ if the tracker names it. Nothing if the directory has no steps as
/// Megatron names them: the tracker alone is another framework's, too.
/// @throws as list_steps().
std::optional<StepDirectories> find_iters(const std::filesystem::path& directory,
                                          const SourceTreePtr& tree, bool needs_tracker);

}  // namespace reshardfs
