// SPDX-License-Identifier: Apache-2.0
/// Statistics of the parameters of a checkpoint: of whole parameters, or of the slices in each
/// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/process/progress.h"
#include "base/text/glob.h"
#include "check/diff_side.h"
#include "check/element_stats.h"
#include "check/first_bad.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

struct ParameterStats {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;  ///< of the whole parameter, or of these ranks' slice
  /// The ranks of these slices, which have the same statistics; empty: the whole parameter.
  std::vector<Rank> ranks;
  /// Nothing of what is no array.
  std::optional<ElementStats> stats;
  /// The first of the elements that are NaN or infinite; of several ranks, the first one's.
  std::optional<BadElement> first_bad{};

  bool is_bad() const noexcept { return stats && stats->nans + stats->infinities > 0; }
};

struct StatsOptions {
  NameFilter names{};
  /// Threads; 0: a number that suits the machine.
  std::size_t jobs = 0;
};

/// Of whole parameters, in the order of the checkpoint: each element counts once, however many
/// ranks hold it. Of a parameter without a layout whose ranks differ, of each rank's own. Reads
/// block by block, and holds 256 KiB for each thread. The number of threads does not change the
/// result.
/// @param progress gets the bytes.
/// @throws Error kMissing if parts of a parameter are in no file, and what the sources throw.
std::vector<ParameterStats> whole_stats(const DiffSide& source, const StatsOptions& options,
                                        Progress& progress);

/// The same of each parameter of each file, as it stands there; ranks with the same shape and
/// statistics are one entry.
std::vector<ParameterStats> file_stats(const CheckpointSet& set, const StatsOptions& options,
                                       Progress& progress);

}  // namespace reshardfs
