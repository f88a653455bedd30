// SPDX-License-Identifier: Apache-2.0
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

}  // namespace reshardfs
