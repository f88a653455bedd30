// SPDX-License-Identifier: Apache-2.0
/// Statistics of parameters, for people and as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json/json_writer.h"
#include "check/parameter_stats.h"

namespace reshardfs {

/// A table; where that would be wider than `columns` (at least 40), one with fewer columns, or
/// lines for each parameter.
std::string stats_text(const std::vector<ParameterStats>& parameters, std::size_t columns,
                       bool colour);

/// One line on which parameters have NaN or infinite elements:
/// "1 of 119 parameters has NaN: w, 3 elements, first at [7], rank 5".
std::string bad_elements_text(const std::vector<ParameterStats>& parameters);

/// The "statistics" of `inspect --json`, as a member. Unknown values are null: JSON has no
/// NaN.
void write_stats(JsonWriter& json, const std::vector<ParameterStats>& parameters);

}  // namespace reshardfs
