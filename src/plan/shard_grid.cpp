// SPDX-License-Identifier: Apache-2.0
#include "plan/shard_grid.h"

#include <algorithm>
#include <utility>

namespace reshardfs {

bool ShardPattern::complete() const noexcept {
  return std::find(files.begin(), files.end(), nullptr) == files.end();
}

ShardGrid::ShardGrid(std::shared_ptr<const ShardPattern> pattern, const TensorEntry& entry)
    : pattern_(std::move(pattern)), entry_(&entry) {}

ShardGrid::ShardGrid(std::shared_ptr<const ShardPattern> pattern,
                     std::vector<const TensorEntry*> entries)
    : pattern_(std::move(pattern)),
      entry_(*std::find_if(entries.begin(), entries.end(),
                           [](const TensorEntry* entry) { return entry != nullptr; })),
      entries_(std::move(entries)) {}

Shape array_shape(const TensorEntry& entry) {
  return is_array(entry.dtype) ? entry.shape
                               : Shape{static_cast<std::int64_t>(entry.content_bytes)};
}

ShardGridPtr single_cell_grid(const Holding& holding) {
  auto pattern = std::make_shared<ShardPattern>();
  pattern->full_shape = array_shape(*holding.entry);
  for (const std::int64_t size : pattern->full_shape) {
    pattern->partitions.push_back(AxisPartition::even(size, 1));
  }
  pattern->files = {holding.file};
  return std::make_shared<const ShardGrid>(std::move(pattern), *holding.entry);
}

}  // namespace reshardfs
