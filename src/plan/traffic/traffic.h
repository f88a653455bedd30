// SPDX-License-Identifier: Apache-2.0
/// What a destination rank reads from which source ranks, and the order of its parameters that
/// follows from it.
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/conversion_options.h"

#include "plan/target/target_table.h"

namespace reshardfs {

/// The source ranks from which a destination rank reads bytes, ascending.
std::vector<Rank> needed_ranks(const TargetTable& target, Rank rank);

/// A rank's parameters in the order in which MindSpore's converter writes them. It visits the
/// source ranks that hold bytes of the destination from the highest to the lowest, each file in its
/// own order and each name once. Resharded parameters come first, then all others. With a model
/// map, the order is that of the map.
std::vector<const TargetParameter*> in_file_order(const TargetTable& target, Rank rank);

/// What a destination rank reads if it prefers the lowest replica; ascending by source rank and
/// part.
std::vector<SourceTraffic> traffic_of(const TargetTable& target, Rank rank);

}  // namespace reshardfs
