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

enum class DrawnSlices : std::uint8_t {
  kOfBothSides,
  kOfTheSource,  ///< without outlines and what is beside the slices
};

/// Draws the slices of a parameter: the outlines are the target ranks' slices, the colors the
/// source ranks that serve them. Drawn are the two dimensions that are cut into most parts.
/// A document has the name and parameter_facts() above; in a page, where they are text of its own,
/// the pictures of parameters that are cut alike are equal.
/// @param ranks the target ranks to show.
void draw_parameter(const TargetTable& target, const TargetParameter& parameter,
                    const std::vector<Rank>& ranks, Placement placement, DrawnSlices slices,
                    BoundedWriter& out);

}  // namespace reshardfs
