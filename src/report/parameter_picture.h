// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/target_table.h"
#include "report/svg.h"

namespace reshardfs {

/// Draws the slices of a parameter: the outlines are the destination ranks' slices, the colours the
/// source ranks that serve them. Drawn are the two dimensions that are cut into most parts.
/// @param ranks the destination ranks to show.
void draw_parameter(const TargetTable& target, const TargetParameter& parameter,
                    const std::vector<Rank>& ranks, Placement placement, BoundedWriter& out);

}  // namespace reshardfs
