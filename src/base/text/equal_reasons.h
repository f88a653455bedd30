// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace reshardfs {

/// Each reason once, with the names that have it: "'a', 'layers.{0..3}.b' (it is cut off)". In the
/// order in which the reasons come first; see group_names().
/// @param all names, each with its reason.
std::vector<std::string> names_by_reason(
    const std::vector<std::pair<std::string, std::string>>& all);

}  // namespace reshardfs
