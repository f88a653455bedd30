// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

namespace reshardfs {

/// The parameter that an optimizer state belongs to: "w" for "adam_m.w". Other names as they are.
std::string weight_name_of(const std::string& name);

/// The names without the optimizer states of others among them: what to name in a message.
std::vector<std::string> without_states(const std::set<std::string>& names);

}  // namespace reshardfs
