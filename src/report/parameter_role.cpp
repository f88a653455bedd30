// SPDX-License-Identifier: Apache-2.0
#include "report/parameter_role.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "format/mindformers/iteration_common.h"
#include "plan/target/name_map.h"

namespace reshardfs {
namespace {

/// Counters and factors of a training that MindSpore and MindSpore Transformers save beside
/// kCommonKeys.
constexpr std::array<std::string_view, 6> kTrainingValues{
    "learning_rate", "beta1_power",           "beta2_power",
    "scale_sense",   "current_iterator_step", "last_overflow_iterator_step"};

template <typename Names>
bool is_among(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool ParameterRoles::is_of_optimizer(const TargetParameter& parameter) const {
  const std::string& name = parameter.name;
  if (is_among(kCommonKeys, name) || is_among(kTrainingValues, name)) return true;
  if (mapped_states_ != nullptr && mapped_states_->contains(name)) return true;
  return !weight_of(name, state_prefixes_).empty() ||
         !weight_of(parameter.source->name, state_prefixes_).empty();
}

}  // namespace reshardfs
