// SPDX-License-Identifier: Apache-2.0
#include "plan/target/shown_tensor.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "layout/regions.h"
#include "plan/mapped/mapped_tensor.h"
#include "plan/reading/run_maker.h"
#include "plan/reading/run_reader.h"
#include "plan/source/packed_units.h"

namespace reshardfs {
namespace {

std::int64_t signed_of(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value);
}
/// Literal bytes, of elements or of a part of one.
void fill(const StridedRun& run, std::span<std::byte> out) {
  for (std::uint64_t i = 0; i < run.length; ++i) {
    out[static_cast<std::size_t>(i)] = (*run.literal)[i % run.literal->size()];
  }
}

}  // namespace

ShownTensor::ShownTensor(CellGridPtr grid, const std::vector<AxisPartition>& partitions,
                         const std::vector<std::int64_t>& parts)
    : grid_(std::move(grid)) {
  if (!grid_->units()) {
    cut(partitions, parts);
    prepare();
    return;
  }
  Packed packed{grid_, {}};
  for (std::size_t d = 0; d < partitions.size(); ++d) {
    packed.shape.push_back(partitions[d].part_length(parts[d]));
  }
  try {
    const PackedUnits units(packed.grid->full_shape(), packed.grid->dtype());
    grid_ = packed.grid->units();
    cut(units.of(partitions), units.of(parts));
  } catch (Error& error) {
    throw error.for_parameter(packed.grid->name());
  }
  packed_ = std::make_shared<const Packed>(std::move(packed));
  prepare();
}

ShownTensor::ShownTensor(CellGridPtr grid) : grid_(std::move(grid)) {
  if (grid_->units()) {
    packed_ = std::make_shared<const Packed>(Packed{grid_, grid_->full_shape()});
    grid_ = packed_->grid->units();
  }
  shape_ = grid_->full_shape();
  for (const AxisPartition& partition : grid_->partitions()) {
    segments_.push_back(overlay(AxisPartition::even(partition.size(), 1), 0, partition));
  }
  prepare();
}

void ShownTensor::cut(const std::vector<AxisPartition>& partitions,
                      const std::vector<std::int64_t>& parts) {
  for (std::size_t d = 0; d < partitions.size(); ++d) {
    shape_.push_back(partitions[d].part_length(parts[d]));
    segments_.push_back(overlay(partitions[d], parts[d], grid_->partitions()[d]));
  }
}

void ShownTensor::prepare() {
  if (shape_.size() > kMaxDimensions) {
    throw Error(ErrorKind::kUnsupported, "it has more than 32 dimensions")
        .for_parameter(grid_->name());
  }
  cell_strides_.assign(shape_.size(), 1);
  for (std::size_t d = shape_.size(); d-- > 1;) {
    cell_strides_[d - 1] = cell_strides_[d] * grid_->partitions()[d].parts();
  }
  element_ = unsigned_of(element_size(grid_->dtype()));
  size_ = unsigned_of(element_count(shape_)) * element_;
}

/// Of the first and the last element, a part may be wanted.
void ShownTensor::visit_bytes(const ByteRange& bytes, VisitSource visit) const {
  if (bytes.empty()) return;
  const std::int64_t first = signed_of(bytes.offset() / element_);
  const std::int64_t end = signed_of((bytes.end() - 1) / element_) + 1;
  for_each_region(first, end - first, first, shape_,
                  [&](Region& region) { visit_region(region, 0, visit); });
}

void ShownTensor::visit_region(Region& region, std::size_t first_cell, VisitSource visit) const {
  if (const MappedTensor* mapped = grid_->mapped()) {
    return for_each_segment(region, segments_, [&](const Region& part, Segments /*parts*/) {
      mapped->for_each_source(part, first_cell, visit);
    });
  }
  if (grid_->boxes() != nullptr) {
    return for_each_segment(region, segments_, [&](const Region& part, Segments /*parts*/) {
      visit_boxes(part, first_cell, visit);
    });
  }
  for_each_segment(region, segments_, [&](const Region& part, Segments parts) {
    visit_cell(part, parts, first_cell, visit);
  });
}

/// @param region of the cell that these segments are in.
void ShownTensor::visit_cell(const Region& region, Segments segments, std::size_t first_cell,
                             VisitSource visit) const {
  std::int64_t cell = 0;
  for (std::size_t d = 0; d < segments.size(); ++d) {
    cell += segments[d]->source_part * cell_strides_[d];
  }
  const auto number = static_cast<std::size_t>(cell);
  visit({grid_->cell(number), first_cell + number,
         nest_in(region, [&](std::size_t d) { return segments[d]->source_length; })});
}

/// @param region of the full tensor.
void ShownTensor::visit_boxes(const Region& region, std::size_t first_cell,
                              VisitSource visit) const {
  const BoxSet& boxes = *grid_->boxes();
  std::int64_t left = region.elements();
  for_each_box(region, boxes, [&](Region part, std::size_t number) {
    left -= part.elements();
    const BoxRange box = boxes.range(number);
    for (std::size_t d = 0; d < box.begin.size(); ++d) part.ranges[d].begin -= box.begin[d];
    visit({grid_->cell(number), first_cell + number,
           nest_in(part, [&](std::size_t d) { return box.end[d] - box.begin[d]; })});
  });
  if (left == 0) return;
  for_each_gap(region, boxes, [&](const Region& gap) {
    visit({{}, first_cell + boxes.size(), nest_in(gap, [&](std::size_t d) {
             return grid_->full_shape()[d];
           })});
  });
}

void ShownTensor::for_each_source(const Nest& nest, std::size_t first_cell,
                                  VisitSource visit) const {
  const bool is_one_cell =
      grid_->cell_count() == 1 && grid_->boxes() == nullptr && grid_->mapped() == nullptr;
  if (is_one_cell) return visit({grid_->cell(0), first_cell, nest});
  for_each_region(nest, shape_, [&](Region& region) { visit_region(region, first_cell, visit); });
}

void ShownTensor::for_each_run(const ByteRange& bytes,
                               const std::function<void(const StridedRun&)>& visit) const {
  RunMaker runs(bytes, element_, visit);
  visit_bytes(bytes, [&](const SourceNest& source) { runs.take(source); });
  runs.finish();
}

void ShownTensor::read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const {
  const bool is_whole = offset % element_ == 0 && out.size() % element_ == 0;
  if (grid_->mapped() != nullptr && !is_whole) return read_parts(offset, out, batch);
  const auto place_of = [&](std::uint64_t destination) {
    return out.subspan(static_cast<std::size_t>(destination - offset));
  };
  const auto read_block = [&](const StridedRun& run, std::span<std::byte> block) {
    read_from_file(run, block, batch);
  };
  const auto read_pieces = [&](const StridedRun& run) {
    const std::span<std::byte> place = place_of(run.destination_offset);
    if (run.literal != nullptr) return fill(run, place);
    read_from_file(run, place, batch);
  };
  RunMaker runs({offset, out.size()}, element_, read_pieces);
  visit_bytes({offset, out.size()}, [&](const SourceNest& source) {
    if (!source.holding || !is_turned(source.nest)) return runs.take(source);
    const std::uint64_t first = unsigned_of(source.nest.to) * element_;
    read_turned(source, element_, place_of(first).data(), read_block);
  });
  runs.finish();
}

/// Elements that may be turned are read as a whole.
void ShownTensor::read_parts(std::uint64_t offset, std::span<std::byte> out,
                             ReadBatch& batch) const {
  constexpr std::size_t kWidest = 16;
  while (!out.empty()) {
    const std::uint64_t skip = offset % element_;
    std::size_t bytes = out.size() / element_ * element_;
    if (skip == 0 && bytes > 0) {
      read(offset, out.first(bytes), batch);
    } else {
      std::array<std::byte, kWidest> element{};
      read(offset - skip, std::span(element).first(element_), batch);
      bytes = std::min<std::size_t>(element_ - skip, out.size());
      std::copy_n(element.begin() + static_cast<std::ptrdiff_t>(skip), bytes, out.begin());
    }
    offset += bytes;
    out = out.subspan(bytes);
  }
}

void ShownTensor::for_each_use(const ByteRange& bytes, SourceSink& sink) const {
  const auto take = [&](const StridedRun& run) {
    if (run.holding) sink.take(run.holding, ranges_of(run));
  };
  RunMaker runs(bytes, element_, take);
  visit_bytes(bytes, [&](const SourceNest& source) {
    if (!source.holding) return;
    if (!is_turned(source.nest)) return runs.take(source);
    for_each_turned_run(source, element_, take);
  });
  runs.finish();
}

ShownTensor ShownTensor::box(const Shape& begin, const Shape& sizes) const {
  ShownTensor part = *this;
  if (!packed_) {
    part.clip(begin, sizes);
    return part;
  }
  try {
    const PackedUnits units(packed_->shape, packed_->grid->dtype());
    const Box in_units = units.of(Box{begin, sizes});
    part.packed_ = std::make_shared<const Packed>(Packed{packed_->grid, sizes});
    part.clip(in_units.offsets, in_units.sizes);
  } catch (Error& error) {
    throw error.for_parameter(packed_->grid->name());
  }
  return part;
}

void ShownTensor::clip(const Shape& begin, const Shape& sizes) {
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    std::vector<AxisSegment> kept;
    for (AxisSegment segment : segments_[d]) {
      const std::int64_t first = std::max(segment.destination_begin, begin[d]);
      const std::int64_t end =
          std::min(segment.destination_begin + segment.length, begin[d] + sizes[d]);
      if (first >= end) continue;
      segment.source_begin += first - segment.destination_begin;
      segment.destination_begin = first - begin[d];
      segment.length = end - first;
      kept.push_back(segment);
    }
    segments_[d] = std::move(kept);
  }
  shape_ = sizes;
  prepare();
}

/// From the cell's file, or another one that has the same if that has failed.
void ShownTensor::read_from_file(StridedRun run, std::span<std::byte> place,
                                 ReadBatch& batch) const {
  if (!run.holding) {
    throw Error(ErrorKind::kMissing, "no source rank has this part").for_parameter(grid_->name());
  }
  if (batch.avoids(*run.holding.file->source)) {
    run.holding = grid_->stand_in(
        run.cell, [&](const RankFile& file) { return !batch.avoids(*file.source); });
    if (!run.holding) batch.rethrow_first();
  }
  read_run(run, place, batch);
}

Holding ShownTensor::whole_cell() const {
  if (grid_->mapped() != nullptr) return {};
  Holding found;
  const std::int64_t elements = element_count(shape_);
  visit_bytes(ByteRange::whole(size_), [&](const SourceNest& source) {
    const auto loops = source.nest.loops();
    const bool follow =
        loops.empty() || (loops.size() == 1 && loops[0].from == 1 && loops[0].to == 1);
    if (source.holding && follow && source.nest.from == 0 && source.nest.elements() == elements &&
        source.holding.entry->content_bytes == size_) {
      found = source.holding;
    }
  });
  return found;
}

void ShownTensor::for_each_cell(
    const std::function<void(const Holding&, std::uint64_t bytes)>& visit) const {
  std::map<std::size_t, std::uint64_t> cells;
  visit_bytes(ByteRange::whole(size_), [&](const SourceNest& source) {
    if (source.literal == nullptr) {
      cells[source.cell] += unsigned_of(source.nest.elements()) * element_;
    }
  });
  for (const auto& [cell, bytes] : cells) visit(grid_->cell(cell), bytes);
}

}  // namespace reshardfs
