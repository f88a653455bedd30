// SPDX-License-Identifier: Apache-2.0
#include "layout/nest.h"

#include <algorithm>
#include <cstring>

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

std::optional<PerDimension<DimensionLoop>> along_dimensions(std::int64_t count, std::int64_t stride,
                                                            std::span<const std::int64_t> shape) {
  const auto strides = element_strides(shape);
  PerDimension<DimensionLoop> loops;
  while (count > 1) {
    std::size_t d = 0;
    while (d < shape.size() && (shape[d] == 1 || strides[d] > stride)) ++d;
    if (d == shape.size() || stride % strides[d] != 0) return std::nullopt;
    const std::int64_t step = stride / strides[d];
    const std::int64_t fitting = (shape[d] - 1) / step + 1;
    if (count <= fitting) {
      loops.push_back({d, count, step});
      return loops;
    }
    // Over several rows: whole ones alone.
    if (shape[d] % step != 0 || count % fitting != 0) return std::nullopt;
    if (fitting > 1) loops.push_back({d, fitting, step});
    count /= fitting;
    stride = strides[d] * shape[d];
  }
  return loops;
}

namespace {

/// Elements in a row and in a column that are copied at once: their cache lines stay near.
constexpr std::int64_t kBlock = 16;

/// Two loops: of elements that are near in the source, and of those that are near in the
/// destination.
struct Plane {
  Nest::Loop source;
  Nest::Loop destination;
};

template <std::int64_t kElement>
void copy_plane(const std::byte* from, std::byte* to, const Plane& plane) {
  const Nest::Loop& a = plane.destination;
  const Nest::Loop& b = plane.source;
  for (std::int64_t first = 0; first < a.count; first += kBlock) {
    const std::int64_t end = std::min(first + kBlock, a.count);
    for (std::int64_t j = 0; j < b.count; ++j) {
      for (std::int64_t i = first; i < end; ++i) {
        std::memcpy(to + (i * a.to + j * b.to) * kElement,
                    from + (i * a.from + j * b.from) * kElement, kElement);
      }
    }
  }
}

void copy_plane(const std::byte* from, std::byte* to, const Plane& plane, std::size_t element) {
  switch (element) {
    case 1:
      return copy_plane<1>(from, to, plane);
    case 2:
      return copy_plane<2>(from, to, plane);
    case 4:
      return copy_plane<4>(from, to, plane);
    case 8:
      return copy_plane<8>(from, to, plane);
    default:
      return copy_plane<16>(from, to, plane);
  }
}

/// Takes the loop of the shortest steps in the source; a single element if there is none.
Nest::Loop take_nearest(Nest& nest) noexcept {
  const auto loops = nest.loops();
  if (loops.empty()) return {};
  const auto least = std::min_element(loops.begin(), loops.end(),
                                      [](const auto& x, const auto& y) { return x.from < y.from; });
  return nest.take(static_cast<std::size_t>(least - loops.begin()));
}

}  // namespace

void copy_elements(const std::byte* from, std::byte* to, const Nest& nest, std::size_t element) {
  const auto width = static_cast<std::int64_t>(element);
  Nest outer = nest;
  Plane plane;
  plane.source = take_nearest(outer);
  if (plane.source.from == 1 && plane.source.to == 1) {
    const std::size_t run = static_cast<std::size_t>(plane.source.count) * element;
    return for_each_index(outer, [&](std::int64_t at, std::int64_t target) {
      std::memcpy(to + target * width, from + at * width, run);
    });
  }
  if (!outer.loops().empty()) plane.destination = outer.take(0);
  for_each_index(outer, [&](std::int64_t at, std::int64_t target) {
    copy_plane(from + at * width, to + target * width, plane, element);
  });
}

}  // namespace reshardfs
