// SPDX-License-Identifier: Apache-2.0
#include "layout/optimizer_axes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "layout/device_grid.h"

namespace reshardfs {
namespace {

/// Axes of the device matrix by their place from the left.
using Axes = std::vector<std::size_t>;

/// Axis numbers count from the right: what is put in at the left of others changes none of theirs,
/// but one more at its right changes it.
std::vector<Axes> from_left(const Layout& layout) {
  std::vector<Axes> map;
  for (const std::vector<int>& axes : layout.tensor_map) {
    Axes& places = map.emplace_back();
    for (const int axis : axes) {
      places.push_back(layout.device_matrix.size() - 1 - static_cast<std::size_t>(axis));
    }
  }
  return map;
}

Axes free_axes(const std::vector<Axes>& map, std::size_t count) {
  Axes all(count);
  std::iota(all.begin(), all.end(), 0);
  std::erase_if(all, [&](std::size_t axis) {
    return std::any_of(map.begin(), map.end(), [axis](const Axes& axes) {
      return std::find(axes.begin(), axes.end(), axis) != axes.end();
    });
  });
  return all;
}

/// Makes two axes of one; the second has `minor` places.
void split_axis(std::size_t axis, std::int64_t minor, Layout& layout, std::vector<Axes>& map) {
  layout.device_matrix[axis] /= minor;
  layout.device_matrix.insert(layout.device_matrix.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                              minor);
  for (Axes& axes : map) {
    for (std::size_t& other : axes) other += other > axis ? 1 : 0;
  }
}

}  // namespace

Layout with_optimizer_axes(const Layout& layout) {
  Layout out;
  out.device_matrix = layout.device_matrix;
  const std::int64_t parts = DeviceGrid(layout).optimizer_parts();
  std::vector<Axes> map = from_left(layout);
  const Axes free = free_axes(map, layout.device_matrix.size());
  std::int64_t replicas = 1;
  for (const std::size_t axis : free) replicas *= layout.device_matrix[axis];

  const bool all = parts == replicas;  // then those of one place, too
  Axes taken;
  std::int64_t rest = parts;
  for (auto axis = free.rbegin(); parts > 1 && axis != free.rend() && (rest > 1 || all); ++axis) {
    const std::int64_t size = layout.device_matrix[*axis];
    if (rest % size == 0) {
      rest /= size;
      taken.insert(taken.begin(), *axis);
    } else if (size % rest == 0) {
      split_axis(*axis, rest, out, map);
      for (std::size_t& other : taken) ++other;  // all of them are behind it
      taken.insert(taken.begin(), *axis + 1);
      rest = 1;
    } else {
      throw Error(ErrorKind::kUnsupported,
                  "no axes of the device matrix state the optimizer's cut into " +
                      std::to_string(parts) + " parts (" + to_string(layout) + ")");
    }
  }
  if (!map.empty()) map[0].insert(map[0].end(), taken.begin(), taken.end());
  for (const Axes& axes : map) {
    std::vector<int>& numbers = out.tensor_map.emplace_back();
    for (const std::size_t axis : axes) {
      numbers.push_back(static_cast<int>(out.device_matrix.size() - 1 - axis));
    }
  }
  return out;
}

}  // namespace reshardfs
