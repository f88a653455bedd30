// SPDX-License-Identifier: Apache-2.0
#include "layout/nest_copy.h"

#include <algorithm>
#include <cstring>

namespace reshardfs {
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
