// SPDX-License-Identifier: Apache-2.0
/// Guesses what the user meant by a glob that matches nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

struct NearGlob {
  std::string name;  ///< the name that takes the fewest changes of the glob to match
  /// The glob with these changes; empty if so many of its letters would change that it is no
  /// likely misspelling.
  std::string glob{};
};

/// Letters of the glob may be changed, added, left out or swapped with the next; its wildcards
/// stay. A glob that only lacks a '*' at an end gets it. Nothing if there are no names. Looks at as
/// many names as take about a second.
std::optional<NearGlob> near_glob(const std::string& glob, const std::vector<std::string>& names);

}  // namespace reshardfs
