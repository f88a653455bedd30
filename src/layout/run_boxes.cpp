// SPDX-License-Identifier: Apache-2.0
#include "layout/run_boxes.h"

#include <utility>

#include "layout/regions.h"

namespace reshardfs {

std::vector<Box> boxes_of_run(const Shape& shape, std::int64_t first, std::int64_t last) {
  std::vector<Box> boxes;
  if (first == last) return boxes;
  for_each_region(first, last - first, 0, shape, [&](const Region& region) {
    Box box;
    for (const IndexRange& range : region.ranges) {
      box.offsets.push_back(range.begin);
      box.sizes.push_back(range.count);
    }
    boxes.push_back(std::move(box));
  });
  return boxes;
}

}  // namespace reshardfs
