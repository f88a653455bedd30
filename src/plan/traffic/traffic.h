// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/conversion_options.h"

#include "plan/target/target_table.h"

namespace reshardfs {

/// What a destination rank reads if it prefers the lowest replica; ascending by source rank and
/// part.
std::vector<SourceTraffic> traffic_of(const TargetTable& target, Rank rank);

}  // namespace reshardfs
