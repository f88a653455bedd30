// SPDX-License-Identifier: Apache-2.0
#include "boxes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace guess_property {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers coordinates(const Numbers& sizes, std::int64_t number) {
  Numbers out(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    out[i] = number % sizes[i];
    number /= sizes[i];
  }
  return out;
}

std::size_t axis_index(const reshardfs::Layout& layout, int axis) {
  return layout.device_matrix.size() - 1 - static_cast<std::size_t>(axis);
}

std::int64_t product(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{1}, std::multiplies<>());
}

/// The lengths of a dimension's parts; nothing if it cannot be cut so.
std::optional<Numbers> lengths_of(const reshardfs::Layout& layout, std::size_t d,
                                  std::int64_t parts, std::int64_t size) {
  const auto split = layout.uneven.empty() ? reshardfs::DimensionSplit{} : layout.uneven[d];
  Numbers lengths(static_cast<std::size_t>(parts), size / parts);
  if (!split.lengths.empty()) lengths = split.lengths;
  if (split.balanced) {
    for (std::int64_t i = 0; i < size % parts; ++i) ++lengths[static_cast<std::size_t>(i)];
  }
  const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(lengths.size()) != parts || total != size) return std::nullopt;
  return lengths;
}

}  // namespace

Numbers parts_of(const reshardfs::Layout& layout) {
  Numbers parts;
  for (const auto& axes : layout.tensor_map) {
    std::int64_t count = 1;
    for (const int axis : axes) count *= layout.device_matrix[axis_index(layout, axis)];
    parts.push_back(count);
  }
  return parts;
}

std::int64_t holders_of(const reshardfs::Layout& layout) {
  return product(layout.device_matrix) / product(parts_of(layout));
}

std::vector<Box> boxes_of(const reshardfs::Layout& layout, const reshardfs::Shape& full) {
  if (layout.tensor_map.size() != full.size()) return {};
  const Numbers parts = parts_of(layout);
  std::vector<Numbers> lengths;
  for (std::size_t d = 0; d < full.size(); ++d) {
    auto own = lengths_of(layout, d, parts[d], full[d]);
    if (!own) return {};
    lengths.push_back(std::move(*own));
  }
  std::int64_t optimizer = layout.optimizer_shard_size;
  if (optimizer < 0) optimizer = holders_of(layout);
  if (optimizer == 0 || full.empty()) optimizer = 1;
  std::map<Numbers, std::int64_t> seen;
  std::vector<Box> boxes;
  for (std::int64_t device = 0; device < product(layout.device_matrix); ++device) {
    const Numbers place = coordinates(layout.device_matrix, device);
    Numbers position;
    for (const auto& axes : layout.tensor_map) {
      std::int64_t part = 0;
      for (const int axis : axes) {
        const std::size_t index = axis_index(layout, axis);
        part = part * layout.device_matrix[index] + place[index];
      }
      position.push_back(part);
    }
    Box box;
    for (std::size_t d = 0; d < full.size(); ++d) {
      const auto part = static_cast<std::ptrdiff_t>(position[d]);
      const auto begin =
          std::accumulate(lengths[d].begin(), lengths[d].begin() + part, std::int64_t{0});
      box.push_back({begin, lengths[d][static_cast<std::size_t>(part)]});
    }
    const std::int64_t holder = seen[position]++;
    if (optimizer > 1) {
      if (box.front().length % optimizer != 0) return {};
      box.front().length /= optimizer;
      box.front().begin += holder % optimizer * box.front().length;
    }
    boxes.push_back(std::move(box));
  }
  return boxes;
}

}  // namespace guess_property
