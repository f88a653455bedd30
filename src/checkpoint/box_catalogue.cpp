// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/box_catalogue.h"

#include <utility>

namespace reshardfs {

BoxPlacement boxes_of_entries(const Holders& holders, Shape full_shape) {
  BoxPlacement placement{std::move(full_shape), {}};
  for (const Holding& holding : holders) {
    Box box{Shape(holding.entry->shape.size(), 0), holding.entry->shape};
    if (const auto offsets = holding.file->index->box_offsets(*holding.entry)) {
      box.offsets.assign(offsets->begin(), offsets->end());
    }
    placement.boxes.push_back({std::move(box), {holding}});
  }
  return placement;
}

}  // namespace reshardfs
