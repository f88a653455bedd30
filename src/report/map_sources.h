// SPDX-License-Identifier: Apache-2.0
/// What a map is drawn in the colours of. Colours are distinguishable for people with colour
/// blindness, too.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "report/slice_map.h"

namespace reshardfs {

struct SourceColour {
  std::string fill;          ///< "#77aadd"
  bool takes_white = false;  ///< whether a text on it is white, not black
};

/// How many sources have colours of different hues; more have a ramp from dark to bright.
inline constexpr std::size_t kHues = 9;

/// @param number which of them, 0 <= number < count.
SourceColour source_colour(std::size_t number, std::size_t count);

/// What a map is drawn in the colours of: the source's ranks, ascending, or the tensors of the
/// source of which a model map makes the parameter.
class MapSources {
 public:
  explicit MapSources(const SliceMap& map);

  std::size_t count() const noexcept { return keys_.size(); }
  bool are_tensors() const noexcept { return by_tensor_; }
  /// @param holding not empty, and one that the map draws.
  std::size_t number(const Holding& holding) const;
  SourceColour colour(std::size_t number) const { return source_colour(number, count()); }
  /// "3", or the tensor's name.
  std::string label(std::size_t number) const;
  /// What fits into a part: "3", or the tensor's number in the legend: "#1" is the first.
  std::string short_label(std::size_t number) const;

 private:
  using Key = std::pair<Rank, std::string>;

  Key key(const Holding& holding) const;

  bool by_tensor_;
  std::vector<Key> keys_;
};

}  // namespace reshardfs
