// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/process/progress.h"
#include "checkpoint/checkpoint_set.h"
#include "guess/guess.h"

namespace reshardfs {

/// What each rank of a set without a strategy holds: shapes from the files' indexes, and which
/// slices have the same content. Ranks next to each other that hold the same names are a pipeline
/// stage.
///
/// Contents are compared by samples of 4 KiB at up to four places of each slice, fewer of large
/// sets; needs a few bytes for each slice, whatever its size.
/// @param full compare all bytes.
/// @throws Error kUsage for a set that needs no strategy, kMissing if a rank has no file, kBadInput
///         if the ranks form no stages, or hold different types of elements; what reading throws.
SlicedSet read_slices(const CheckpointSet& set, bool full, Progress& progress);

}  // namespace reshardfs
