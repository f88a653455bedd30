// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/derive_names.h"

#include "base/text/state_names.h"

namespace reshardfs {

std::vector<std::string> without_states(const std::set<std::string>& names) {
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    const std::string weight = weight_name_of(name);
    if (weight == name || !names.contains(weight)) kept.push_back(name);
  }
  return kept;
}

}  // namespace reshardfs
