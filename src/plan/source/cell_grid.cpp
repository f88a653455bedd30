// SPDX-License-Identifier: Apache-2.0
#include "plan/source/cell_grid.h"

#include <algorithm>
#include <utility>

#include "base/content_size.h"
#include "plan/source/packed_units.h"

namespace reshardfs {

CellPattern CellPattern::uncut(Shape full_shape) {
  CellPattern pattern;
  pattern.full_shape = std::move(full_shape);
  for (const std::int64_t size : pattern.full_shape) {
    pattern.partitions.push_back(AxisPartition::even(size, 1));
  }
  return pattern;
}

bool CellPattern::complete() const noexcept {
  return std::find(files.begin(), files.end(), nullptr) == files.end();
}

CellGrid::CellGrid(std::shared_ptr<const CellPattern> pattern, const TensorEntry& entry)
    : pattern_(std::move(pattern)), entry_(&entry) {
  count_in_units();
}

CellGrid::CellGrid(std::shared_ptr<const CellPattern> pattern,
                   std::vector<const TensorEntry*> entries)
    : pattern_(std::move(pattern)),
      entry_(*std::find_if(entries.begin(), entries.end(),
                           [](const TensorEntry* entry) { return entry != nullptr; })) {
  rest().entries = std::move(entries);
  count_in_units();
}

CellGrid::CellGrid(std::shared_ptr<const CellPattern> pattern,
                   std::vector<const TensorEntry*> entries, const TensorEntry& like)
    : pattern_(std::move(pattern)), entry_(&like) {
  rest().entries = std::move(entries);
  count_in_units();
}

CellGrid::CellGrid(const CellGrid& other)
    : pattern_(other.pattern_),
      entry_(other.entry_),
      rest_(other.rest_ ? std::make_unique<Rest>(*other.rest_) : nullptr) {}

CellGrid::Rest& CellGrid::rest() {
  if (!rest_) rest_ = std::make_unique<Rest>();
  return *rest_;
}

void CellGrid::count_in_units() {
  if (!is_packed(dtype())) return;
  const PackedUnits units(full_shape(), dtype());
  auto pattern = std::make_shared<CellPattern>(*pattern_);
  pattern->full_shape = units.full_shape();
  pattern->partitions = units.of(partitions());
  if (boxes() != nullptr) {
    std::vector<Box> in_units;
    in_units.reserve(boxes()->size());
    for (std::size_t i = 0; i < boxes()->size(); ++i) in_units.push_back(units.of(boxes()->box(i)));
    pattern->boxes = std::make_shared<const BoxSet>(units.full_shape(), in_units);
  }
  auto grid = std::make_shared<CellGrid>(*this);
  grid->pattern_ = std::move(pattern);
  rest().units = std::move(grid);
}

CellGrid::Replica CellGrid::replica_at(std::size_t number) const {
  const auto& [cell, file] = pattern_->replicas[number];
  const TensorEntry* entry = entry_;
  if (entries().size() > cell_count()) {
    entry = entries()[cell_count() + number];
  } else if (!entries().empty()) {
    entry = file->index->find(name());
  }
  return {cell, entry == nullptr ? Holding() : Holding{file, entry}};
}

Holding CellGrid::replica(std::size_t number,
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

std::shared_ptr<const CellGrid> CellGrid::without_stand_ins() const {
  auto grid = std::make_shared<CellGrid>(*this);
  Rest& rest = grid->rest();
  rest.replicas_differ = true;
  if (rest.units) rest.units = rest.units->without_stand_ins();
  return grid;
}

std::string boxes_text(const CellGrid& grid) {
  const std::size_t count = grid.boxes()->size();
  return std::to_string(count) + (count == 1 ? " box" : " boxes");
}

void require_countable(const Shape& full, DType dtype) {
  content_size(full, dtype, "the full tensor's size");
}

Shape array_shape(const TensorEntry& entry) {
  return is_array(entry.dtype) ? entry.shape.get()
                               : Shape{static_cast<std::int64_t>(entry.content_bytes)};
}

namespace {

std::shared_ptr<CellPattern> single_cell_pattern(const Holding& holding) {
  auto pattern = std::make_shared<CellPattern>(CellPattern::uncut(array_shape(*holding.entry)));
  pattern->files = {holding.file};
  return pattern;
}

}  // namespace

CellGridPtr single_cell_grid(const Holding& holding) {
  return std::make_shared<const CellGrid>(single_cell_pattern(holding), *holding.entry);
}

CellGridPtr single_cell_grid(const Holders& holders) {
  const Holding first = holders.front();
  auto pattern = single_cell_pattern(first);
  for (const Holding& holder : holders) {
    if (holder.file != first.file) pattern->replicas.emplace_back(0, holder.file);
  }
  if (holders.rows().size() == 1) {
    return std::make_shared<const CellGrid>(std::move(pattern), *first.entry);
  }
  return std::make_shared<const CellGrid>(std::move(pattern), std::vector{first.entry});
}

}  // namespace reshardfs
