// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "report/palette.h"
#include "report/slice_map.h"

namespace reshardfs {

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
