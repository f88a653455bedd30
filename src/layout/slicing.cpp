// SPDX-License-Identifier: Apache-2.0
#include "layout/slicing.h"

#include <algorithm>
#include <string>

#include "base/checked.h"

namespace reshardfs {
namespace {

// A grid of cells has at most one cell for each rank when it is complete; this leaves room for
// layouts with holes and stops absurd ones before anything is allocated for them.
constexpr std::int64_t kMaxCells = 1 << 22;

/// Axis `from_right` of a device matrix, counted from the left.
std::size_t from_left(const Layout& layout, int from_right) {
  return layout.device_matrix.size() - 1 - static_cast<std::size_t>(from_right);
}

std::vector<std::size_t> unused_axes(const Layout& layout) {
  std::vector<bool> used(layout.device_matrix.size(), false);
  for (const auto& axes : layout.tensor_map) {
    for (const int axis : axes) used[from_left(layout, axis)] = true;
  }
  std::vector<std::size_t> unused;
  for (std::size_t axis = 0; axis < used.size(); ++axis) {
    if (!used[axis]) unused.push_back(axis);
  }
  return unused;
}

/// Parts of the optimizer cut; 1: no cut.
std::int64_t optimizer_parts(const Layout& layout) {
  if (layout.optimizer_shard_size == 0 || layout.tensor_map.empty()) return 1;
  if (layout.optimizer_shard_size > 0) return layout.optimizer_shard_size;
  std::int64_t replicas = 1;
  for (const std::size_t axis : unused_axes(layout)) replicas *= layout.device_matrix[axis];
  return replicas;
}

bool is_empty(const std::vector<std::vector<std::int64_t>>& lists) {
  return std::all_of(lists.begin(), lists.end(), [](const auto& list) { return list.empty(); });
}

/// Even cuts would give wrong numbers for these without any error, so they are refused.
void require_even(const Layout& layout) {
  if (layout.field <= 0 && is_empty(layout.param_split_shape)) return;
  throw Error(ErrorKind::kUnsupported,
              layout.field > 0 ? "it is split by fields" : "it is split unevenly")
      .hint("only even splits are supported; --exclude leaves the parameter out");
}

void require_dimensions(const Layout& layout, const Shape& shape) {
  if (layout.tensor_map.size() == shape.size()) return;
  throw Error(ErrorKind::kBadInput, "its layout is for " +
                                        std::to_string(layout.tensor_map.size()) +
                                        " dimensions, but its shape is " + to_string(shape));
}

}  // namespace

std::vector<std::int64_t> splits_of(const Layout& layout) {
  check_layout(layout);
  require_even(layout);
  std::vector<std::int64_t> splits;
  for (const auto& axes : layout.tensor_map) {
    std::int64_t split = 1;
    for (const int axis : axes) {
      split = mul_or_throw(split, layout.device_matrix[from_left(layout, axis)], "a split");
    }
    splits.push_back(split);
  }
  if (!splits.empty()) splits[0] = mul_or_throw(splits[0], optimizer_parts(layout), "a split");
  return splits;
}

Shape full_shape_of(const Layout& layout, const Shape& slice) {
  const std::vector<std::int64_t> splits = splits_of(layout);
  require_dimensions(layout, slice);
  Shape full = slice;
  for (std::size_t d = 0; d < full.size(); ++d) {
    full[d] = mul_or_throw(full[d], splits[d], "the full shape");
  }
  return full;
}

Slicing::Slicing(const Layout& layout, const Shape& full_shape)
    : full_shape_(full_shape), device_matrix_(layout.device_matrix) {
  const std::vector<std::int64_t> splits = splits_of(layout);
  require_dimensions(layout, full_shape);
  for (std::size_t d = 0; d < splits.size(); ++d) {
    if (full_shape[d] % splits[d] != 0) {
      throw Error(ErrorKind::kBadInput, "dimension " + std::to_string(d) + " of its shape " +
                                            to_string(full_shape) + " has " +
                                            std::to_string(full_shape[d]) +
                                            " elements, which cannot be cut into " +
                                            std::to_string(splits[d]) + " equal parts");
    }
    partitions_.push_back(AxisPartition::even(full_shape[d], splits[d]));
    cell_count_ = mul_or_throw(cell_count_, splits[d], "the number of slices");
  }
  if (cell_count_ > kMaxCells) {
    throw Error(ErrorKind::kBadInput,
                "it would be cut into " + std::to_string(cell_count_) + " slices");
  }
  for (const auto& axes : layout.tensor_map) {
    std::vector<std::size_t>& list = cutting_axes_.emplace_back();
    for (const int axis : axes) list.push_back(from_left(layout, axis));
  }
  free_axes_ = unused_axes(layout);
  optimizer_parts_ = optimizer_parts(layout);
  devices_ = device_count(layout);
}

Slicing Slicing::replicated(const Shape& full_shape, std::int64_t devices) {
  Slicing slicing;
  slicing.full_shape_ = full_shape;
  slicing.devices_ = devices;
  slicing.device_matrix_ = {devices};
  slicing.free_axes_ = {0};
  slicing.cutting_axes_.resize(full_shape.size());
  for (const std::int64_t size : full_shape) {
    slicing.partitions_.push_back(AxisPartition::even(size, 1));
  }
  return slicing;
}

std::vector<std::int64_t> Slicing::parts_of(std::int64_t local_rank) const {
  std::vector<std::int64_t> coordinates(device_matrix_.size());
  std::int64_t rest = local_rank;
  for (std::size_t axis = device_matrix_.size(); axis-- > 0;) {
    coordinates[axis] = rest % device_matrix_[axis];
    rest /= device_matrix_[axis];
  }
  // A list of axes as a mixed-radix number, first axis major.
  const auto position = [&](const std::vector<std::size_t>& axes) {
    std::int64_t value = 0;
    for (const std::size_t axis : axes) value = value * device_matrix_[axis] + coordinates[axis];
    return value;
  };
  std::vector<std::int64_t> parts;
  parts.reserve(cutting_axes_.size());
  for (const auto& axes : cutting_axes_) parts.push_back(position(axes));
  // Ranks with the same cell differ in the free axes alone, and ascend with them.
  if (!parts.empty() && optimizer_parts_ > 1) {
    parts[0] = parts[0] * optimizer_parts_ + position(free_axes_) % optimizer_parts_;
  }
  return parts;
}

std::int64_t Slicing::cell_of(std::int64_t local_rank) const {
  const std::vector<std::int64_t> parts = parts_of(local_rank);
  std::int64_t cell = 0;
  for (std::size_t d = 0; d < parts.size(); ++d) cell = cell * partitions_[d].parts() + parts[d];
  return cell;
}

Shape Slicing::slice_shape(std::int64_t local_rank) const {
  Shape shape = parts_of(local_rank);
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = partitions_[d].part_length(shape[d]);
  return shape;
}

}  // namespace reshardfs
