// SPDX-License-Identifier: Apache-2.0
/// Strategies as text for people: all layouts, or which part of one parameter each rank holds.
#pragma once

#include <cstddef>
#include <string>

#include "reshardfs/strategy.h"

namespace reshardfs {

/// "2 stages of 4 devices, 20 layouts"
std::string strategy_summary(const Strategy& strategy);

/// The summary, the device matrices with their ranks, and a table of all layouts. A row that would
/// be wider than `columns` (at least 40) is broken after the name; a name that is, in its middle.
std::string strategy_listing(const Strategy& strategy, std::size_t columns);

/// @throws Error kMissing if the strategy does not lay `name` out.
std::string parameter_listing(const Strategy& strategy, const std::string& name,
                              std::size_t columns);

}  // namespace reshardfs
