// SPDX-License-Identifier: Apache-2.0
/// Which box of a full tensor each device holds, in plain loops: shares no code with reshardfs.
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/shape.h"

namespace guess_property {

struct Range {
  std::int64_t begin = 0;
  std::int64_t length = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Range&) const = default;
};

using Box = std::vector<Range>;

/// Parts of each dimension by the tensor map, without the optimizer's.
std::vector<std::int64_t> parts_of(const reshardfs::Layout& layout);

/// Devices that hold the same part by the tensor map.
std::int64_t holders_of(const reshardfs::Layout& layout);

/// By device; empty if the layout does not fit the shape.
std::vector<Box> boxes_of(const reshardfs::Layout& layout, const reshardfs::Shape& full);

}  // namespace guess_property
