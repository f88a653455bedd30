// SPDX-License-Identifier: Apache-2.0
#include "layout/fold.h"

#include <algorithm>

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
  std::vector<Layout> ways() {
    Layout folded = layout_;
    folded.tensor_map.clear();
    folded.tensor_shape.clear();
    search(0, folded);
    return found_;
  }

 private:
  /// Expanded dimensions [begin, end) joined to one: is it a box, and of the right size?
  bool joins_to(std::size_t begin, std::size_t end, std::size_t dimension,
                std::int64_t& full) const {
    full = 1;
    std::int64_t split = 1;
    bool rest_is_inside_a_part = false;
    for (std::size_t d = begin; d < end; ++d) {
      const auto product = checked_mul(full, layout_.tensor_shape[d]);
      if (!product) return false;
      full = *product;
      // Behind a dimension that is not cut into single rows, another cut would not give a box.
      if (splits_[d] > 1 && rest_is_inside_a_part) return false;
      if (splits_[d] != layout_.tensor_shape[d]) rest_is_inside_a_part = true;
      split *= splits_[d];
    }
    if (dimension == 0) split *= optimizer_parts_;
    return is_slice_ ? full % split == 0 && full / split == shape_[dimension]
                     : full == shape_[dimension];
  }

  // The expansion has at most as many dimensions as a checkpoint's tensors may have (16), and most
  // products do not fit, so that trying all groupings is cheap.
  void search(std::size_t begin, const Layout& so_far) {
    const std::size_t dimension = so_far.tensor_map.size();
    if (dimension == shape_.size()) {
      if (begin == splits_.size() &&
          std::find(found_.begin(), found_.end(), so_far) == found_.end()) {
        found_.push_back(so_far);
      }
      return;
    }
    for (std::size_t end = begin + 1; end <= splits_.size() && found_.size() < 2; ++end) {
      std::int64_t full = 0;
      if (!joins_to(begin, end, dimension, full)) continue;
      Layout next = so_far;
      next.tensor_shape.push_back(full);
      std::vector<int>& axes = next.tensor_map.emplace_back();
      for (std::size_t d = begin; d < end; ++d) {
        axes.insert(axes.end(), layout_.tensor_map[d].begin(), layout_.tensor_map[d].end());
      }
      search(end, next);
    }
  }

  const Layout& layout_;
  const Shape& shape_;
  bool is_slice_;
  std::vector<std::int64_t> splits_;
  std::int64_t optimizer_parts_ = 1;
  std::vector<Layout> found_;
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
    return layout;  // as written, or not an expansion: whoever uses it checks its dimensions
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
