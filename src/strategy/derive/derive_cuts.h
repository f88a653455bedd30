// SPDX-License-Identifier: Apache-2.0
/// Which devices of a stage share the slices of a parameter: the axes of device matrices, made
/// comparable.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/strategy.h"

namespace reshardfs {

/// `size` devices, each `stride` device numbers from the next.
struct DeviceAxis {
  std::int64_t stride = 1;
  std::int64_t size = 1;

  bool operator==(const DeviceAxis&) const = default;
};

/// The devices that a dimension is cut over, first axis major. Axes of size 1 are left out and
/// neighbours joined, so that groups of different device matrices are equal if they give every
/// device the same part: the last axis of [2, 4] and the last two of [2, 2, 2], major first.
using DeviceGroup = std::vector<DeviceAxis>;

DeviceGroup group_of(const Layout& layout, const std::vector<int>& axes);
std::int64_t device_count(const DeviceGroup& group);

/// The group that every cut of a strategy is over; empty if nothing is cut.
/// @throws Error kBadInput if there are several; names axes and parameters.
DeviceGroup common_group(const Strategy& strategy);

}  // namespace reshardfs
