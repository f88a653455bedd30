// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/target/target_table.h"
#include "report/svg.h"

namespace reshardfs {

/// "Float32 [64, 32]", and what keeps it from being drawn.
std::string parameter_facts(const TargetTable& target, const TargetParameter& parameter,
                            const std::vector<Rank>& ranks);

/// Draws the slices of a parameter: the outlines are the target ranks' slices, the colors the
/// source ranks that serve them. Drawn are the two dimensions that are cut into most parts.
/// A document has the name and parameter_facts() above; a page has them as text of its own.
/// @param ranks the target ranks to show.
void draw_parameter(const TargetTable& target, const TargetParameter& parameter,
                    const std::vector<Rank>& ranks, Placement placement, BoundedWriter& out);

}  // namespace reshardfs
