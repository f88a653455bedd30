// SPDX-License-Identifier: Apache-2.0
#include "layout/device_grid.h"

#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

DeviceGrid::DeviceGrid(const Layout& layout) : device_matrix_(layout.device_matrix) {
  check_layout(layout);
  devices_ = device_count(layout);
  std::vector<bool> used(device_matrix_.size(), false);
  for (const auto& axes : layout.tensor_map) {
    std::vector<std::size_t>& cutting = cutting_axes_.emplace_back();
    std::int64_t split = 1;
    for (const int from_right : axes) {
      const std::size_t axis = device_matrix_.size() - 1 - static_cast<std::size_t>(from_right);
      cutting.push_back(axis);
      used[axis] = true;
      split *= device_matrix_[axis];  // at most devices_, as no axis is used twice
    }
    map_splits_.push_back(split);
  }
  std::int64_t replicas = 1;
  for (std::size_t axis = 0; axis < used.size(); ++axis) {
    if (used[axis]) continue;
    free_axes_.push_back(axis);
    replicas *= device_matrix_[axis];
  }
  if (layout.optimizer_shard_size != 0 && !map_splits_.empty()) {
    optimizer_parts_ = layout.optimizer_shard_size < 0 ? replicas : layout.optimizer_shard_size;
    if (optimizer_parts_ > replicas) {
      throw Error(ErrorKind::kBadInput, "the optimizer cuts each slice into " +
                                            std::to_string(optimizer_parts_) +
                                            " parts, more than there are devices that hold it (" +
                                            std::to_string(replicas) + ")");
    }
  }
}

std::vector<std::int64_t> DeviceGrid::splits() const {
  std::vector<std::int64_t> all = map_splits_;
  if (!all.empty()) all[0] *= optimizer_parts_;  // at most devices_
  return all;
}

std::vector<std::int64_t> DeviceGrid::parts_of(std::int64_t local_rank) const {
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
  // Ranks with the same slice differ in the free axes alone, and ascend with them.
  if (!parts.empty() && optimizer_parts_ > 1) {
    parts[0] = parts[0] * optimizer_parts_ + position(free_axes_) % optimizer_parts_;
  }
  return parts;
}

}  // namespace reshardfs
