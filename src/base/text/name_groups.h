// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reshardfs {

/// Names that differ in numbers alone, put together: "layers.{0..61}.w1", "layers.{0,2}.w1", in the
/// order of their first names. Every name is in one group, and a group has no other names. Numbers
/// with leading zeros or more than 18 digits stay as they are. O(n log n).
std::vector<std::string> group_names(std::span<const std::string_view> names);
std::vector<std::string> group_names(const std::vector<std::string>& names);

/// Each reason once, with the names that have it: "'a', 'layers.{0..3}.b' (it is cut off)". In the
/// order in which the reasons come first; see group_names().
/// @param all names, each with its reason.
std::vector<std::string> names_by_reason(
    const std::vector<std::pair<std::string, std::string>>& all);

}  // namespace reshardfs
