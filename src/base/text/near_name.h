// SPDX-License-Identifier: Apache-2.0
/// Guesses what the user meant by a name or a glob that matches nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// The name in `known` that the user most likely meant by `given`: the one with the fewest letters
/// changed, added, left out or swapped with the next; the first one if there are several. If this
/// is more than a third of its letters: the only name that begins with `given`, or nothing.
std::optional<std::string> near_name(std::string_view given, const std::vector<std::string>& known);

/// "did you mean 'NAME'?" with the near name, as a hint of an error; else with those that have
/// `given` in them; empty if there is none.
std::string did_you_mean(std::string_view given, const std::vector<std::string>& known);

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
