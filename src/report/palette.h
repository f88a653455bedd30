// SPDX-License-Identifier: Apache-2.0
/// The colours for source ranks in drawings, which are distinguishable for people with colour
/// blindness, too.
#pragma once

#include <cstddef>
#include <string>

namespace reshardfs {

struct SourceColour {
  std::string fill;          ///< "#77aadd"
  bool takes_white = false;  ///< whether a text on it is white, not black
};

/// How many sources have colours of different hues; more have a ramp from dark to bright.
inline constexpr std::size_t kHues = 9;

/// @param number which of them, 0 <= number < count.
SourceColour source_colour(std::size_t number, std::size_t count);

}  // namespace reshardfs
