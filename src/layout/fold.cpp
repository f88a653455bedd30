// SPDX-License-Identifier: Apache-2.0
#include "layout/fold.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "layout/device_grid.h"

namespace reshardfs {
namespace {

class Folder {
 public:
  Folder(const Layout& layout, const Shape& shape, bool is_slice)
      : layout_(layout), shape_(shape), is_slice_(is_slice) {
    const DeviceGrid grid(layout);
    splits_ = grid.map_splits();
    optimizer_parts_ = grid.optimizer_parts();
  }

  /// All distinct ways; two are enough to know that it is ambiguous.
  ///
  /// Dimension by dimension: whether and how the rest can be joined does not depend on how what
  /// comes before was. So two ways are kept for each place to go on from, however many there are.
  std::vector<Layout> ways() const {
    std::vector<std::vector<Layout>> by_end(splits_.size() + 1);
    Layout nothing = layout_;
    nothing.tensor_map.clear();
    nothing.tensor_shape.clear();
    by_end[0].push_back(std::move(nothing));
    for (std::size_t dimension = 0; dimension < shape_.size(); ++dimension) {
      std::vector<std::vector<Layout>> next(by_end.size());
      for (std::size_t begin = 0; begin < splits_.size(); ++begin) {
        for (const Layout& before : by_end[begin]) join(before, begin, dimension, next);
      }
      by_end = std::move(next);
    }
    return by_end.back();
  }

 private:
  /// Expanded dimensions [begin, end) joined to one: is it a box, and of the right size?
  bool joins_to(std::size_t begin, std::size_t end, std::size_t dimension,
                std::int64_t& full) const {
    full = 1;
    std::int64_t split = dimension == 0 ? optimizer_parts_ : 1;
    bool rest_is_inside_a_part = false;
    for (std::size_t d = begin; d < end; ++d) {
      const auto product = checked_mul(full, layout_.tensor_shape[d]);
      if (!product) return false;
      full = *product;
      // Behind a dimension that is not cut into single rows, another cut would not give a box.
      if (splits_[d] > 1 && rest_is_inside_a_part) return false;
      if (splits_[d] != layout_.tensor_shape[d]) rest_is_inside_a_part = true;
      split *= splits_[d];  // all of them together are at most the devices
    }
    return is_slice_ ? full % split == 0 && full / split == shape_[dimension]
                     : full == shape_[dimension];
  }

  /// All ways to make `dimension` of the expanded ones from `begin` on.
  void join(const Layout& before, std::size_t begin, std::size_t dimension,
            std::vector<std::vector<Layout>>& by_end) const {
    Layout joined = before;
    joined.tensor_map.emplace_back();
    joined.tensor_shape.emplace_back();
    for (std::size_t end = begin + 1; end <= splits_.size(); ++end) {
      std::vector<int>& axes = joined.tensor_map.back();
      const std::vector<int>& more = layout_.tensor_map[end - 1];
      axes.insert(axes.end(), more.begin(), more.end());
      std::vector<Layout>& known = by_end[end];
      if (known.size() == 2 || !joins_to(begin, end, dimension, joined.tensor_shape.back())) {
        continue;
      }
      if (std::find(known.begin(), known.end(), joined) == known.end()) known.push_back(joined);
    }
  }

  const Layout& layout_;
  const Shape& shape_;
  bool is_slice_;
  std::vector<std::int64_t> splits_;
  std::int64_t optimizer_parts_ = 1;
};

}  // namespace

Layout fold_expanded(const Layout& layout, const Shape& shape, bool is_slice) {
  // One device cuts nothing. Strategies of pipeline parallelism alone do not even say how many
  // dimensions a parameter has.
  if (layout.tensor_map.empty() && !shape.empty() && device_count(layout) == 1) {
    Layout whole = layout;
    whole.tensor_map.resize(shape.size());
    return whole;
  }
  if (layout.tensor_map.size() <= shape.size() ||
      layout.tensor_shape.size() != layout.tensor_map.size()) {
    return layout;  // as written, or not an expansion: the code that uses it checks its dimensions
  }
  const std::vector<Layout> ways = Folder(layout, shape, is_slice).ways();
  if (ways.size() == 1) return ways.front();
  throw Error(ErrorKind::kBadInput,
              std::string(ways.empty() ? "its expanded JSON layout does not fit"
                                       : "its expanded JSON layout fits in several ways") +
                  " the shape " + to_string(shape) + ": " + to_string(layout))
      .hint("use the protobuf strategy, which keeps the nesting");
}

}  // namespace reshardfs
