// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "plan/target/target_table.h"
#include "report/bounded_writer.h"

namespace reshardfs {

/// Writes what the page draws of a parameter when it is opened, as two members of a JSON object:
/// "maps", a list of slice_maps() each, and "map_of", for each example its number in "maps", or -1.
/// What is alike is there once. All maps together have a bounded size: of what is beyond, none.
/// @param examples numbers of parameters in the target.
void write_slice_maps(const TargetTable& target, const std::vector<Rank>& ranks,
                      const std::vector<std::size_t>& examples, BoundedWriter& out);

}  // namespace reshardfs
