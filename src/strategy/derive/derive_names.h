// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

namespace reshardfs {

/// The names without the optimizer states of others among them: what to name in a message.
std::vector<std::string> without_states(const std::set<std::string>& names);

}  // namespace reshardfs
