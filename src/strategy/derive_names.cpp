// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive_names.h"

#include <array>
#include <string_view>

namespace reshardfs {
namespace {

/// What optimizers put before the name of the parameter that a state belongs to.
constexpr std::array<std::string_view, 8> kStatePrefixes{"accu_grads.", "adam_m.",     "adam_v.",
                                                         "exp_avg.",    "exp_avg_sq.", "moment1.",
                                                         "moment2.",    "moments."};

}  // namespace

std::string weight_name_of(const std::string& name) {
  for (const std::string_view prefix : kStatePrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

std::vector<std::string> without_states(const std::set<std::string>& names) {
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    const std::string weight = weight_name_of(name);
    if (weight == name || !names.contains(weight)) kept.push_back(name);
  }
  return kept;
}

}  // namespace reshardfs
