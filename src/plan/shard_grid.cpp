// SPDX-License-Identifier: Apache-2.0
#include "plan/shard_grid.h"

#include <algorithm>

namespace reshardfs {

bool ShardGrid::complete() const noexcept {
  return std::all_of(cells.begin(), cells.end(), [](const Holding& h) { return bool(h); });
}

Shape array_shape(const TensorEntry& entry) {
  return is_array(entry.dtype) ? entry.shape
                               : Shape{static_cast<std::int64_t>(entry.content_bytes)};
}

ShardGridPtr single_cell_grid(const Holding& holding) {
  auto grid = std::make_shared<ShardGrid>();
  grid->name = holding.entry->name;
  grid->dtype = holding.entry->dtype;
  grid->full_shape = array_shape(*holding.entry);
  for (const std::int64_t size : grid->full_shape) {
    grid->partitions.push_back(AxisPartition::even(size, 1));
  }
  grid->cells = {holding};
  return grid;
}

}  // namespace reshardfs
