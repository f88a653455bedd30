// SPDX-License-Identifier: Apache-2.0
/// Strategies as text for people: all layouts, which part of one parameter each rank holds, and
/// pictures of at most 80 columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/rank.h"
#include "reshardfs/strategy.h"

namespace reshardfs {

/// The ranks of a stage on their device matrix: the last axis runs across, the others down.
/// @param first_rank that of the stage's first device.
std::string device_matrix_picture(const std::vector<std::int64_t>& device_matrix, Rank first_rank);

/// Which part of a parameter each rank holds: a grid of dimension 0 (down) and 1 (across), with
/// the ranks of each part; a list where a grid would not fit or there are more cut dimensions.
std::string slice_picture(const Layout& layout, Rank first_rank);

/// "2 stages of 4 devices, 20 layouts"
std::string strategy_summary(const Strategy& strategy);

/// The summary, the device matrices with their ranks, and a table of all layouts. A row that would
/// be wider than `columns` (at least 40) is broken after the name; a name that is, in its middle.
std::string strategy_listing(const Strategy& strategy, std::size_t columns);

/// @throws Error kMissing if the strategy does not lay `name` out.
std::string parameter_listing(const Strategy& strategy, const std::string& name,
                              std::size_t columns);

}  // namespace reshardfs
