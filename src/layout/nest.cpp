// SPDX-License-Identifier: Apache-2.0
#include "layout/nest.h"

#include <algorithm>

namespace reshardfs {

Nest::Loop Nest::take(std::size_t number) noexcept {
  const Loop taken = loops_[number];
  loops_.erase(number);
  return taken;
}

bool Region::clip(std::size_t d, std::int64_t begin, std::int64_t end) noexcept {
  IndexRange& range = ranges[d];
  const auto first_at = [&](std::int64_t index) {
    const std::int64_t way = std::max<std::int64_t>(index - range.begin, 0);
    return range.step == 1 ? way : (way + range.step - 1) / range.step;
  };
  const std::int64_t first = first_at(begin);
  const std::int64_t stop = std::min(first_at(end), range.count);
  if (first >= stop) return false;
  to += first * range.to;
  range.begin += first * range.step;
  range.count = stop - first;
  return true;
}

std::int64_t Region::elements() const noexcept {
  std::int64_t count = 1;
  for (const IndexRange& range : ranges) count *= range.count;
  return count;
}

PerDimension<std::int64_t> element_strides(std::span<const std::int64_t> shape) noexcept {
  PerDimension<std::int64_t> strides(shape.size());
  std::int64_t elements = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = elements;
    elements *= shape[d];
  }
  return strides;
}

}  // namespace reshardfs
