// SPDX-License-Identifier: Apache-2.0
#include "plan/source/shard_grid.h"

#include <algorithm>
#include <utility>

#include "base/content_size.h"
#include "plan/source/packed_units.h"

namespace reshardfs {

ShardPattern ShardPattern::uncut(Shape full_shape) {
  ShardPattern pattern;
  pattern.full_shape = std::move(full_shape);
  for (const std::int64_t size : pattern.full_shape) {
    pattern.partitions.push_back(AxisPartition::even(size, 1));
  }
  return pattern;
}

bool ShardPattern::complete() const noexcept {
  return std::find(files.begin(), files.end(), nullptr) == files.end();
}

ShardGrid::ShardGrid(std::shared_ptr<const ShardPattern> pattern, const TensorEntry& entry)
    : pattern_(std::move(pattern)), entry_(&entry) {
  count_in_units();
}

ShardGrid::ShardGrid(std::shared_ptr<const ShardPattern> pattern,
                     std::vector<const TensorEntry*> entries)
    : pattern_(std::move(pattern)),
      entry_(*std::find_if(entries.begin(), entries.end(),
                           [](const TensorEntry* entry) { return entry != nullptr; })),
      entries_(std::move(entries)) {
  count_in_units();
}

ShardGrid::ShardGrid(std::shared_ptr<const ShardPattern> pattern,
                     std::vector<const TensorEntry*> entries, const TensorEntry& like)
    : pattern_(std::move(pattern)), entry_(&like), entries_(std::move(entries)) {
  count_in_units();
}

void ShardGrid::count_in_units() {
  if (!is_packed(dtype())) return;
  const PackedUnits units(full_shape(), dtype());
  auto pattern = std::make_shared<ShardPattern>(*pattern_);
  pattern->full_shape = units.full_shape();
  pattern->partitions = units.of(partitions());
  if (boxes() != nullptr) {
    std::vector<Box> in_units;
    in_units.reserve(boxes()->size());
    for (std::size_t i = 0; i < boxes()->size(); ++i) in_units.push_back(units.of(boxes()->box(i)));
    pattern->boxes = std::make_shared<const BoxSet>(units.full_shape(), in_units);
  }
  auto grid = std::make_shared<ShardGrid>(*this);
  grid->pattern_ = std::move(pattern);
  units_ = std::move(grid);
}

ShardGrid::Replica ShardGrid::replica_at(std::size_t number) const {
  const auto& [cell, file] = pattern_->replicas[number];
  const TensorEntry* entry = entry_;
  if (entries_.size() > cell_count()) {
    entry = entries_[cell_count() + number];
  } else if (!entries_.empty()) {
    entry = file->index->find(name());
  }
  return {cell, entry == nullptr ? Holding() : Holding{file, entry}};
}

Holding ShardGrid::replica(std::size_t number,
                           const std::function<bool(const RankFile& file)>& usable) const {
  const auto& replicas = pattern_->replicas;
  const auto first =
      std::lower_bound(replicas.begin(), replicas.end(), number,
                       [](const auto& replica, std::size_t n) { return replica.first < n; });
  for (auto at = first; at != replicas.end() && at->first == number; ++at) {
    if (!usable(*at->second)) continue;
    const Replica found = replica_at(static_cast<std::size_t>(at - replicas.begin()));
    if (found.holding) return found.holding;
  }
  return {};
}

std::shared_ptr<const ShardGrid> ShardGrid::without_stand_ins() const {
  auto grid = std::make_shared<ShardGrid>(*this);
  grid->replicas_differ_ = true;
  if (units_) grid->units_ = units_->without_stand_ins();
  return grid;
}

std::string boxes_text(const ShardGrid& grid) {
  const std::size_t count = grid.boxes()->size();
  return std::to_string(count) + (count == 1 ? " box" : " boxes");
}

void require_countable(const Shape& full, DType dtype) {
  content_size(full, dtype, "the full tensor's size");
}

Shape array_shape(const TensorEntry& entry) {
  return is_array(entry.dtype) ? entry.shape
                               : Shape{static_cast<std::int64_t>(entry.content_bytes)};
}

namespace {

std::shared_ptr<ShardPattern> single_cell_pattern(const Holding& holding) {
  auto pattern = std::make_shared<ShardPattern>(ShardPattern::uncut(array_shape(*holding.entry)));
  pattern->files = {holding.file};
  return pattern;
}

}  // namespace

ShardGridPtr single_cell_grid(const Holding& holding) {
  return std::make_shared<const ShardGrid>(single_cell_pattern(holding), *holding.entry);
}

ShardGridPtr single_cell_grid(const Holders& holders) {
  const Holding first = holders.front();
  auto pattern = single_cell_pattern(first);
  for (const Holding& holder : holders) {
    if (holder.file != first.file) pattern->replicas.emplace_back(0, holder.file);
  }
  if (holders.runs().size() == 1) {
    return std::make_shared<const ShardGrid>(std::move(pattern), *first.entry);
  }
  return std::make_shared<const ShardGrid>(std::move(pattern), std::vector{first.entry});
}

}  // namespace reshardfs
