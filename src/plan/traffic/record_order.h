// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/target/target_table.h"

namespace reshardfs {

/// The source ranks of which a destination rank reads bytes, ascending.
std::vector<Rank> needed_ranks(const TargetTable& target, Rank rank);

/// A rank's parameters in the order in which MindSpore's converter writes them: the source ranks
/// that hold a byte of the destination are visited from the highest to the lowest, each file in
/// its own order and each name once; first come all names that are resharded, then all others.
/// Through a model map: in the map's order.
std::vector<const TargetParameter*> in_file_order(const TargetTable& target, Rank rank);

}  // namespace reshardfs
