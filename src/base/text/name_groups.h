// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reshardfs {

/// Names that differ in numbers alone, put together: "layers.{0..61}.w1", "layers.{0,2}.w1", in the
/// order of their first names. Every name is in one group, and a group has no other names. Numbers
/// with leading zeros or more than 18 digits stay as they are. O(n log n).
std::vector<std::string> group_names(const std::vector<std::string>& names);

}  // namespace reshardfs
