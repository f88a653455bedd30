// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace reshardfs {

/// Where a box is in an item that has more than the box: the item's shape is [1, ..., 1,
/// `elements`], of one dimension more than the box, whose elements lie side by side from `first`
/// on. In elements.
struct ItemRange {
  std::int64_t first = 0;
  std::int64_t elements = 0;
};

}  // namespace reshardfs
