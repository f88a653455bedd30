// SPDX-License-Identifier: Apache-2.0
/// Boxes of one tensor that need not be a product of partitions: each is one interval of every
/// dimension, and any set of them may be there.
///
/// Those that a range meets are found in a tree: it halves the boxes again and again, each time
/// along the dimension in which they are spread the most, and knows the bounds of each half. Where
/// the boxes do not interlock, the bounds do not either, and a range that meets k boxes costs
/// O(k + log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/shape.h"

namespace reshardfs {

/// In elements; one number for each dimension of the tensor.
struct Box {
  Shape offsets;
  Shape sizes;

  auto operator<=>(const Box&) const = default;
};

/// "[2, 2] at [0, 4]"
std::string to_string(const Box& box);

/// What lies in [begin, end) of each dimension.
struct BoxRange {
  std::span<const std::int64_t> begin;
  std::span<const std::int64_t> end;
};

/// Boxes are numbered in the order in which they were given.
class BoxSet {
 public:
  /// @param full_shape of a tensor whose elements can be counted (element_count()).
  /// @param boxes each with elements.
  /// @throws Error kBadInput if a box has another number of dimensions or leaves the tensor.
  BoxSet(Shape full_shape, const std::vector<Box>& boxes);

  const Shape& full_shape() const noexcept { return full_shape_; }
  std::size_t size() const noexcept { return order_.size(); }
  BoxRange range(std::size_t number) const noexcept {
    const std::size_t dimensions = full_shape_.size();
    const auto bounds = std::span(bounds_).subspan(number * 2 * dimensions, 2 * dimensions);
    return {bounds.first(dimensions), bounds.last(dimensions)};
  }
  Box box(std::size_t number) const;

  /// Two boxes that share elements, if there are any, the lower number first. O(n log n) for boxes
  /// that do not interlock.
  /// @throws Error kUnsupported for boxes that interlock so much that it would take minutes.
  std::optional<std::pair<std::size_t, std::size_t>> overlap() const;
  /// How many elements are in no box, if no two overlap. O(n).
  std::int64_t uncovered() const;

  /// Calls visit(number) for each box that has elements of the range, until it returns false.
  template <typename Visit>
  void visit(const BoxRange& range, Visit&& visit) const {
    if (!order_.empty()) visit_node(0, {0, order_.size(), levels_}, range, visit);
  }

  bool operator==(const BoxSet& other) const noexcept {
    return full_shape_ == other.full_shape_ && bounds_ == other.bounds_ && size() == other.size();
  }

 private:
  /// The boxes order_[first] to order_[last - 1], and how often they are halved.
  struct Stretch {
    std::size_t first = 0;
    std::size_t last = 0;
    int levels = 0;

    std::size_t middle() const noexcept { return first + (last - first) / 2; }
    Stretch left() const noexcept { return {first, middle(), levels - 1}; }
    Stretch right() const noexcept { return {middle(), last, levels - 1}; }
  };

  static bool meets(std::span<const std::int64_t> bounds, const BoxRange& range) noexcept {
    const std::size_t dimensions = range.begin.size();
    for (std::size_t d = 0; d < dimensions; ++d) {
      if (bounds[d] >= range.end[d] || range.begin[d] >= bounds[dimensions + d]) return false;
    }
    return true;
  }

  template <typename Visit>
  bool visit_node(std::size_t node, const Stretch& stretch, const BoxRange& range,
                  Visit& visit) const {
    const std::size_t width = 2 * full_shape_.size();
    if (!meets(std::span(nodes_).subspan(node * width, width), range)) return true;
    if (stretch.levels > 0) {
      return visit_node(2 * node + 1, stretch.left(), range, visit) &&
             visit_node(2 * node + 2, stretch.right(), range, visit);
    }
    for (std::size_t i = stretch.first; i < stretch.last; ++i) {
      const std::size_t number = order_[i];
      if (!meets(std::span(bounds_).subspan(number * width, width), range)) continue;
      if (!visit(number)) return false;
    }
    return true;
  }

  class OverlapSearch;

  void build(std::size_t node, const Stretch& stretch);
  std::size_t widest(const Stretch& stretch) const;

  Shape full_shape_;
  int levels_ = 0;
  std::vector<std::int64_t> bounds_;  ///< of each box, where it begins and where it ends
  std::vector<std::uint32_t> order_;  ///< their numbers, as the tree's leaves have them
  std::vector<std::int64_t> nodes_;   ///< as bounds_, of a heap: node i has 2i + 1 and 2i + 2
};

}  // namespace reshardfs
