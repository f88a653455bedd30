// SPDX-License-Identifier: Apache-2.0
/// Statistics of parameters, for people and as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "check/parameter_stats.h"

namespace reshardfs {

/// A table; where that would be wider than `columns` (at least 40), one with fewer columns, or
/// lines for each parameter.
std::string stats_text(const std::vector<ParameterStats>& parameters, std::size_t columns,
                       bool colour);

/// One line on which parameters have NaN or infinite elements:
/// "1 of 119 parameters has NaN: w, 3 elements, first at [7], rank 5".
std::string bad_elements_text(const std::vector<ParameterStats>& parameters);

/// An array with an object for each. What there is none of is null: JSON has no NaN.
nlohmann::ordered_json stats_json(const std::vector<ParameterStats>& parameters);

}  // namespace reshardfs
