// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plan/traffic/traffic_survey.h"
#include "report/svg.h"

namespace reshardfs {

/// More ranks than this on one side are drawn in groups.
inline constexpr std::size_t kMostDrawnRanks = 64;

/// A heat map: a row for each destination group, a column for each source group, with the sums of
/// rows and columns beside it.
/// @param survey of at most kMostDrawnRanks groups a side.
void draw_traffic(const TrafficSurvey& survey, Placement placement, BoundedWriter& out);

}  // namespace reshardfs
