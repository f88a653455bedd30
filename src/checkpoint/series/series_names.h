// SPDX-License-Identifier: Apache-2.0
/// What tells the files of one run of a training job from those of others: their paths without
/// rank, step and part. MindSpore names a file PREFIX-EPOCH_STEP.ckpt, and a second run in a
/// directory that is not empty PREFIX_1-EPOCH_STEP.ckpt; what it saves when a run breaks ends in
/// "_breakpoint.ckpt" (mindspore/train/callback/_checkpoint.py, mindspore/train/model.py).
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/ranks/rank_files.h"

namespace reshardfs {

/// Stands in names for the number of a rank.
inline constexpr std::string_view kRankPlace = "{rank}";

/// The file name without "_breakpoint" before its extension.
std::string without_breakpoint(std::string_view file_name);

/// The series of a file, in which its rank may still stand.
/// @param shape see PathCaptures
std::string series_of_shape(std::string_view shape);

/// Puts "{rank}" in the place of the file's rank in FoundFile::series. Behind the word "rank" that
/// is the number itself; elsewhere ("checkpoint_3") it is one only if every rank has its own, as
/// "net_1" may be the second run as well.
void take_ranks_out_of_series(RankFiles& found);

/// Whether the files of the series were saved when a run broke.
bool is_breakpoint_series(std::string_view series);

/// The file names' common beginning, "net" or "net_rank_{rank}"; of a series that was saved when a
/// run broke with "_breakpoint" behind it.
std::string prefix_of_series(std::string_view series);

/// The same with the directories before it.
std::string path_of_series(std::string_view series);

}  // namespace reshardfs
