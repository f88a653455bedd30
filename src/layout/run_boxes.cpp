// SPDX-License-Identifier: Apache-2.0
#include "layout/run_boxes.h"

#include <cstddef>
#include <utility>

namespace reshardfs {
namespace {

class RunDivider {
 public:
  explicit RunDivider(const Shape& shape)
      : shape_(shape), index_(shape.size(), 0), below_(shape.size(), 1) {
    for (std::size_t d = shape.size(); d-- > 1;) below_[d - 1] = below_[d] * shape[d];
  }

  /// [first, last) of what has index_ in the dimensions before d.
  void divide(std::size_t d, std::int64_t first, std::int64_t last) {
    if (first >= last) return;
    if (d == shape_.size()) return add(d, 0, 1);
    std::int64_t row = first / below_[d];
    const std::int64_t end = last / below_[d];
    const std::int64_t head = first % below_[d];
    const std::int64_t tail = last % below_[d];
    if (head > 0) {
      divide_row(d, row, head, row == end ? tail : below_[d]);
      ++row;
    }
    if (row < end) add(d, row, end - row);
    if (row <= end) divide_row(d, end, 0, tail);
  }

  std::vector<Box> take() { return std::move(boxes_); }

 private:
  void divide_row(std::size_t d, std::int64_t row, std::int64_t first, std::int64_t last) {
    index_[d] = row;
    divide(d + 1, first, last);
    index_[d] = 0;
  }

  /// Whole rows of dimension d.
  void add(std::size_t d, std::int64_t row, std::int64_t rows) {
    Box box{index_, shape_};
    for (std::size_t before = 0; before < d; ++before) box.sizes[before] = 1;
    if (d < shape_.size()) {
      box.offsets[d] = row;
      box.sizes[d] = rows;
    }
    boxes_.push_back(std::move(box));
  }

  const Shape& shape_;
  Shape index_;
  Shape below_;  ///< the elements below one index of each dimension
  std::vector<Box> boxes_;
};

}  // namespace

std::vector<Box> boxes_of_run(const Shape& shape, std::int64_t first, std::int64_t last) {
  RunDivider divider(shape);
  divider.divide(0, first, last);
  return divider.take();
}

}  // namespace reshardfs
