// SPDX-License-Identifier: Apache-2.0
#include "layout/box_set.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// Up to this number of boxes, examining all is faster than dividing them.
constexpr std::size_t kLeafBoxes = 8;

/// To find an overlap: seconds at most.
constexpr std::int64_t kMostComparisons = std::int64_t{1} << 28U;

void require_inside(const Box& box, const Shape& full) {
  bool inside = box.offsets.size() == full.size() && box.sizes.size() == full.size();
  for (std::size_t d = 0; inside && d < full.size(); ++d) {
    inside = box.sizes[d] >= 0 && box.sizes[d] <= full[d] && box.offsets[d] >= 0 &&
             box.offsets[d] <= full[d] - box.sizes[d];
  }
  if (inside) return;
  throw Error(ErrorKind::kBadInput,
              "the box " + to_string(box) + " is not inside the full shape " + to_string(full));
}

}  // namespace

std::string to_string(const Box& box) {
  return to_string(box.sizes) + " at " + to_string(box.offsets);
}

BoxSet::BoxSet(Shape full_shape, const std::vector<Box>& boxes)
    : full_shape_(std::move(full_shape)), order_(boxes.size()) {
  if (boxes.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kBadInput, "more boxes than 32-bit numbers can count");
  }
  const std::size_t dimensions = full_shape_.size();
  bounds_.reserve(boxes.size() * 2 * dimensions);
  for (const Box& box : boxes) {
    require_inside(box, full_shape_);
    bounds_.insert(bounds_.end(), box.offsets.begin(), box.offsets.end());
    for (std::size_t d = 0; d < dimensions; ++d) bounds_.push_back(box.offsets[d] + box.sizes[d]);
  }
  std::iota(order_.begin(), order_.end(), 0U);
  for (std::size_t most = boxes.size(); most > kLeafBoxes; most = (most + 1) / 2) ++levels_;
  nodes_.resize(((std::size_t{2} << static_cast<unsigned>(levels_)) - 1) * 2 * dimensions);
  if (!boxes.empty()) build(0, {0, boxes.size(), levels_});
}

Box BoxSet::box(std::size_t number) const {
  const BoxRange own = range(number);
  Box box{{own.begin.begin(), own.begin.end()}, {own.end.begin(), own.end.end()}};
  for (std::size_t d = 0; d < box.sizes.size(); ++d) box.sizes[d] -= box.offsets[d];
  return box;
}

/// The dimension along which the boxes' beginnings are spread the most, in boxes of mean size.
std::size_t BoxSet::widest(const Stretch& stretch) const {
  std::size_t best = 0;
  double most = -1;
  for (std::size_t d = 0; d < full_shape_.size(); ++d) {
    std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
    std::int64_t highest = 0;
    double sizes = 0;
    for (std::size_t i = stretch.first; i < stretch.last; ++i) {
      const BoxRange own = range(order_[i]);
      lowest = std::min(lowest, own.begin[d]);
      highest = std::max(highest, own.begin[d]);
      sizes += static_cast<double>(own.end[d] - own.begin[d]);
    }
    const double spread = static_cast<double>(highest - lowest) / sizes;
    if (spread > most) {
      most = spread;
      best = d;
    }
  }
  return best;
}

void BoxSet::build(std::size_t node, const Stretch& stretch) {
  const auto at = [this](std::size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
  const std::size_t dimensions = full_shape_.size();
  const auto begin = std::span(nodes_).subspan(node * 2 * dimensions, dimensions);
  const auto end = std::span(nodes_).subspan((node * 2 + 1) * dimensions, dimensions);
  std::fill(begin.begin(), begin.end(), std::numeric_limits<std::int64_t>::max());
  std::fill(end.begin(), end.end(), 0);
  for (std::size_t i = stretch.first; i < stretch.last; ++i) {
    const BoxRange own = range(order_[i]);
    for (std::size_t d = 0; d < dimensions; ++d) {
      begin[d] = std::min(begin[d], own.begin[d]);
      end[d] = std::max(end[d], own.end[d]);
    }
  }
  if (stretch.levels == 0) {
    // What lies one behind the other is read so, if it was given so.
    std::sort(at(stretch.first), at(stretch.last));
    return;
  }
  if (dimensions > 0) {
    const std::size_t along = widest(stretch);
    std::nth_element(at(stretch.first), at(stretch.middle()), at(stretch.last),
                     [&](std::uint32_t a, std::uint32_t b) {
                       return std::pair(range(a).begin[along], a) <
                              std::pair(range(b).begin[along], b);
                     });
  }
  build(2 * node + 1, stretch.left());
  build(2 * node + 2, stretch.right());
}

/// Compares the halves of the tree with each other, wherever their bounds meet.
class BoxSet::OverlapSearch {
 public:
  explicit OverlapSearch(const BoxSet& set) : set_(set) {}

  std::optional<std::pair<std::size_t, std::size_t>> find() {
    if (set_.size() > 1) search(0, {0, set_.size(), set_.levels_});
    return found_;
  }

 private:
  /// Among the boxes of one node.
  void search(std::size_t node, const Stretch& own) {
    if (found_) return;
    if (own.levels == 0) return compare(own, own);
    search(2 * node + 1, own.left());
    search(2 * node + 2, own.right());
    search(2 * node + 1, own.left(), 2 * node + 2, own.right());
  }

  /// Of the boxes of two nodes, which are on one level.
  void search(std::size_t a, const Stretch& of_a, std::size_t b, const Stretch& of_b) {
    if (found_ || !meet(set_.nodes_, a, b)) return;
    if (of_a.levels == 0) return compare(of_a, of_b);
    search(2 * a + 1, of_a.left(), 2 * b + 1, of_b.left());
    search(2 * a + 1, of_a.left(), 2 * b + 2, of_b.right());
    search(2 * a + 2, of_a.right(), 2 * b + 1, of_b.left());
    search(2 * a + 2, of_a.right(), 2 * b + 2, of_b.right());
  }

  void compare(const Stretch& a, const Stretch& b) {
    for (std::size_t i = a.first; i < a.last; ++i) {
      for (std::size_t j = std::max(b.first, i + 1); j < b.last; ++j) {
        if (!meet(set_.bounds_, set_.order_[i], set_.order_[j])) continue;
        found_ = std::minmax<std::size_t>(set_.order_[i], set_.order_[j]);
        return;
      }
    }
  }

  bool meet(const std::vector<std::int64_t>& bounds, std::size_t a, std::size_t b) {
    if (--comparisons_left_ < 0) {
      throw Error(ErrorKind::kUnsupported, "its boxes interlock too much");
    }
    const std::size_t dimensions = set_.full_shape_.size();
    const auto of_a = std::span(bounds).subspan(a * 2 * dimensions, 2 * dimensions);
    const auto of_b = std::span(bounds).subspan(b * 2 * dimensions, 2 * dimensions);
    return meets(of_a, {of_b.first(dimensions), of_b.last(dimensions)});
  }

  const BoxSet& set_;
  std::int64_t comparisons_left_ = kMostComparisons;
  std::optional<std::pair<std::size_t, std::size_t>> found_{};
};

std::optional<std::pair<std::size_t, std::size_t>> BoxSet::overlap() const {
  return OverlapSearch(*this).find();
}

std::int64_t BoxSet::uncovered() const {
  std::int64_t left = element_count(full_shape_);
  for (std::size_t i = 0; i < size(); ++i) {
    const BoxRange own = range(i);
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < own.begin.size(); ++d) elements *= own.end[d] - own.begin[d];
    left -= elements;
  }
  return left;
}

}  // namespace reshardfs
