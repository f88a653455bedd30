// SPDX-License-Identifier: Apache-2.0
/// Which of a conversion's parameters a page draws: one for each way to cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/target/target_table.h"
#include "plan/traffic/traffic_survey.h"
#include "report/parameter_role.h"

namespace reshardfs {

/// Parameters of one full shape that both sides cut alike. Their ranks may differ, as those of
/// pipeline stages do.
struct DrawnCut {
  std::size_t example = 0;  ///< a parameter's number in the target: a weight, if one is cut so
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;       ///< full tensors, all of them
  bool same_sources = true;      ///< whether all are read from the example's source ranks
  bool is_cut = false;           ///< whether a side cuts it at all
  bool example_is_state = true;  ///< no weight is cut so
};

/// Of each kind the parameter that stands for it: the first weight, or the first of all.
std::vector<std::size_t> kind_examples(const TargetTable& target, const TrafficSurvey& survey,
                                       const ParameterRoles& roles);

/// Those that a picture can show. Weights that are cut come first, the largest first of all.
/// @param examples kind_examples().
std::vector<DrawnCut> drawn_cuts(const TargetTable& target, const std::vector<Rank>& ranks,
                                 const TrafficSurvey& survey, const ParameterRoles& roles,
                                 const std::vector<std::size_t>& examples);

}  // namespace reshardfs
