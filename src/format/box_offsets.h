// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reshardfs/shape.h"

namespace reshardfs {

/// Where the entries of an index that are boxes begin in their full tensors. It stands beside the
/// entries, as the files of most formats have no boxes.
class BoxOffsets {
 public:
  /// @param entry the entry's number, higher than that of any box before.
  /// @param offsets in elements, one for each dimension.
  void add(std::size_t entry, const Shape& offsets);

  bool empty() const noexcept { return boxes_.empty(); }
  std::size_t size() const noexcept { return boxes_.size(); }
  /// The entry of a box, 0 <= number < size().
  std::size_t entry(std::size_t number) const { return boxes_.at(number).entry; }
  /// Nothing if the entry is no box. O(log n).
  std::optional<std::span<const std::int64_t>> of(std::size_t entry) const noexcept;

 private:
  struct Place {
    std::size_t entry = 0;
    std::size_t first = 0;  ///< in offsets_
  };
  std::vector<Place> boxes_;
  std::vector<std::int64_t> offsets_;  ///< those of all boxes, one after the other
};

}  // namespace reshardfs
