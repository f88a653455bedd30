// SPDX-License-Identifier: Apache-2.0
/// Strategies as text for people: all layouts, or which part of one parameter each rank holds.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "reshardfs/strategy.h"

namespace reshardfs {

/// Nothing is broken or shortened, for programs that read the output.
constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();

/// The columns to stay in: of the terminal that standard output is ($COLUMNS wins, 80 if neither
/// says), or kAnyWidth if it is none.
std::size_t output_columns();

/// "2 stages of 4 devices, 20 layouts"
std::string strategy_summary(const Strategy& strategy);

/// The summary, the device matrices with their ranks, and a table of all layouts. A row that would
/// be wider than `columns` (at least 40) is broken after the name; a name that is, in its middle.
std::string strategy_listing(const Strategy& strategy, std::size_t columns);

/// @throws Error kMissing if the strategy does not lay `name` out.
std::string parameter_listing(const Strategy& strategy, const std::string& name,
                              std::size_t columns);

}  // namespace reshardfs
