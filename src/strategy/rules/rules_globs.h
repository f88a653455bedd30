// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace reshardfs {

/// The name as a glob that takes other numbers between dots, too: with * for each.
std::string glob_for_numbers(const std::string& name);

/// Globs for all names of a group.
struct GroupGlobs {
  std::size_t group = 0;
  std::vector<std::string> globs{};
};

/// Globs as people would write them, with * for the numbers of layers, for rules of which the first
/// that matches takes a name.
struct GlobList {
  /// To stand first: single names that a glob of another group takes too.
  std::vector<GroupGlobs> exceptions{};
  std::vector<GroupGlobs> general{};
};

/// @param names with the group that each is in.
GlobList write_globs(const std::map<std::string, std::size_t>& names);

}  // namespace reshardfs
