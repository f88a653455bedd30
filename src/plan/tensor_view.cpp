// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_view.h"

#include <algorithm>
#include <array>
#include <functional>

#include "reshardfs/error.h"

#include "plan/box_runs.h"
#include "plan/element_tiles.h"
#include "plan/mapped_cells.h"
#include "plan/mapped_runs.h"
#include "plan/packed_units.h"
#include "plan/run_reader.h"

namespace reshardfs {
namespace {

std::uint64_t unsigned_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

/// Literal bytes, of elements or of a part of one.
void fill(const StridedRun& run, std::span<std::byte> out) {
  for (std::uint64_t i = 0; i < run.length; ++i) {
    out[static_cast<std::size_t>(i)] = (*run.literal)[i % run.literal->size()];
  }
}

}  // namespace

/// Where a row (an index of the dimensions before k) lies in the source.
struct TensorView::RowPosition {
  std::int64_t cell = 0;  ///< contribution of the dimensions before k to the cell's number
  /// For each dimension before k: the index in the source part, and its segment.
  std::array<std::int64_t, kMaxDimensions> source_index{};
  std::array<const AxisSegment*, kMaxDimensions> segment{};
};

TensorView::TensorView(ShardGridPtr grid, const std::vector<AxisPartition>& partitions,
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

TensorView::TensorView(ShardGridPtr grid) : grid_(std::move(grid)) {
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

void TensorView::cut(const std::vector<AxisPartition>& partitions,
                     const std::vector<std::int64_t>& parts) {
  for (std::size_t d = 0; d < partitions.size(); ++d) {
    shape_.push_back(partitions[d].part_length(parts[d]));
    segments_.push_back(overlay(partitions[d], parts[d], grid_->partitions()[d]));
  }
}

std::int64_t TensorView::source_length(std::size_t dimension, std::int64_t part) const {
  return grid_->partitions()[dimension].part_length(part);
}

/// Whether the slice has, in this dimension, exactly what one source part has.
bool TensorView::is_whole(std::size_t d) const noexcept {
  return segments_[d].size() == 1 && segments_[d][0].length == shape_[d] &&
         source_length(d, segments_[d][0].source_part) == shape_[d];
}

void TensorView::prepare() {
  if (shape_.size() > kMaxDimensions) {
    throw Error(ErrorKind::kUnsupported, "it has more than 32 dimensions")
        .for_parameter(grid_->name());
  }
  const auto element = unsigned_of(element_size(grid_->dtype()));
  size_ = unsigned_of(element_count(shape_)) * element;

  cell_strides_.assign(shape_.size(), 1);
  for (std::size_t d = shape_.size(); d-- > 1;) {
    cell_strides_[d - 1] = cell_strides_[d] * grid_->partitions()[d].parts();
  }
  block_bytes_ = element;
  run_dimension_ = shape_.empty() ? 0 : shape_.size() - 1;
  while (size_ > 0 && run_dimension_ > 0 && is_whole(run_dimension_)) {
    block_bytes_ *= unsigned_of(shape_[run_dimension_]);
    --run_dimension_;
  }
  row_bytes_ = shape_.empty() ? element : block_bytes_ * unsigned_of(shape_[run_dimension_]);
}

GridSlice TensorView::slice() const noexcept {
  return {*grid_, shape_, segments_};
}

TensorView::RowPosition TensorView::locate_row(std::uint64_t row) const {
  RowPosition position;
  for (std::size_t d = run_dimension_; d-- > 0;) {
    const auto index = static_cast<std::int64_t>(row % unsigned_of(shape_[d]));
    row /= unsigned_of(shape_[d]);
    const AxisSegment& segment = segment_at(segments_[d], index);
    position.segment[d] = &segment;
    position.source_index[d] = segment.source_begin + index - segment.destination_begin;
    position.cell += segment.source_part * cell_strides_[d];
  }
  return position;
}

/// Emits the runs of `count` equal rows: `length` bytes from `column` on in each. The rows share
/// their segments in all dimensions before k.
template <typename Visit>
void TensorView::visit_rows(std::uint64_t row, std::uint64_t count, std::uint64_t column,
                            std::uint64_t length, std::uint64_t destination, Visit&& visit) const {
  const RowPosition position = locate_row(row);
  const std::size_t k = run_dimension_;
  // Dimensions behind k are whole: each has one segment, whose part is part of the cell's number.
  std::int64_t tail_cell = 0;
  for (std::size_t d = k + 1; d < shape_.size(); ++d) {
    tail_cell += segments_[d][0].source_part * cell_strides_[d];
  }
  std::uint64_t done = 0;
  while (done < length) {
    const std::uint64_t at = column + done;
    const AxisSegment& segment =
        segment_at(segments_[k], static_cast<std::int64_t>(at / block_bytes_));
    const std::uint64_t segment_begin = unsigned_of(segment.destination_begin) * block_bytes_;
    const std::uint64_t segment_end = segment_begin + unsigned_of(segment.length) * block_bytes_;
    StridedRun run;
    run.length = std::min(segment_end - at, length - done);
    run.count = count;
    run.cell = static_cast<std::size_t>(position.cell + segment.source_part * cell_strides_[k] +
                                        tail_cell);
    run.holding = grid_->cell(run.cell);
    std::uint64_t stride = unsigned_of(source_length(k, segment.source_part)) * block_bytes_;
    run.source_stride = stride;
    run.source_offset = unsigned_of(segment.source_begin) * block_bytes_ + (at - segment_begin);
    for (std::size_t d = k; d-- > 0;) {
      run.source_offset += unsigned_of(position.source_index[d]) * stride;
      stride *= unsigned_of(source_length(d, position.segment[d]->source_part));
    }
    run.destination_offset = destination + done;
    run.destination_stride = row_bytes_;
    visit(run);
    done += run.length;
  }
}

template <typename Visit>
void TensorView::visit_runs(const ByteRange& bytes_wanted, Visit&& visit) const {
  if (grid_->boxes() != nullptr) {
    return for_each_box_run(slice(), bytes_wanted, std::ref(visit));
  }
  if (grid_->mapped() != nullptr) {
    return for_each_mapped_run(slice(), bytes_wanted, std::ref(visit));
  }
  std::uint64_t offset = bytes_wanted.offset();
  std::uint64_t length = bytes_wanted.length();
  if (shape_.empty()) {
    if (length > 0) visit(StridedRun{grid_->cell(0), 0, offset, offset, length, 1, size_, size_});
    return;
  }
  while (length > 0) {
    const std::uint64_t row = offset / row_bytes_;
    const std::uint64_t column = offset % row_bytes_;
    std::uint64_t rows = 1;
    std::uint64_t bytes = std::min(row_bytes_ - column, length);
    if (column == 0 && length >= row_bytes_ && run_dimension_ > 0) {
      // Whole rows, as many as stay in one segment of dimension k-1.
      const std::size_t outer = run_dimension_ - 1;
      const auto index = static_cast<std::int64_t>(row % unsigned_of(shape_[outer]));
      const AxisSegment& segment = segment_at(segments_[outer], index);
      const auto left = unsigned_of(segment.destination_begin + segment.length - index);
      rows = std::min(left, length / row_bytes_);
      bytes = row_bytes_;
    }
    visit_rows(row, rows, column, bytes, offset, visit);
    offset += rows * bytes;
    length -= rows * bytes;
  }
}

void TensorView::for_each_run(const ByteRange& bytes,
                              const std::function<void(const StridedRun&)>& visit) const {
  visit_runs(bytes, visit);
}

void TensorView::read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const {
  const auto place_of = [&](const StridedRun& run) {
    return out.subspan(static_cast<std::size_t>(run.destination_offset - offset));
  };
  if (grid_->mapped() == nullptr) {
    visit_runs({offset, out.size()},
               [&](const StridedRun& run) { read_from_file(run, place_of(run), batch); });
    return;
  }
  ElementTiles tiles(unsigned_of(element_size(grid_->dtype())),
                     [&](const StridedRun& run, std::span<std::byte> place) {
                       read_from_file(run, place, batch);
                     });
  visit_runs({offset, out.size()}, [&](const StridedRun& run) {
    const std::span<std::byte> place = place_of(run);
    if (run.literal != nullptr) return fill(run, place);
    if (!tiles.take(run, place.data())) read_from_file(run, place, batch);
  });
  tiles.finish();
}

/// From the cell's file, or another one that has the same if that has failed.
void TensorView::read_from_file(StridedRun run, std::span<std::byte> place,
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

Holding TensorView::whole_cell() const noexcept {
  if (grid_->mapped() != nullptr) return {};
  if (grid_->boxes() != nullptr) return whole_box(slice());
  std::int64_t cell = 0;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (!is_whole(d)) return {};
    cell += segments_[d][0].source_part * cell_strides_[d];
  }
  return grid_->cell(static_cast<std::size_t>(cell));
}

void TensorView::for_each_cell(
    const std::function<void(const Holding&, std::uint64_t bytes)>& visit) const {
  if (size_ == 0) return;
  if (grid_->boxes() != nullptr) return for_each_box(slice(), visit);
  if (grid_->mapped() != nullptr) return for_each_mapped_cell(slice(), visit);
  // Rows of each source part, by dimension; the cells are the product of these lists.
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> rows(shape_.size());
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    std::map<std::int64_t, std::int64_t> by_part;
    for (const AxisSegment& s : segments_[d]) by_part[s.source_part] += s.length;
    rows[d].assign(by_part.begin(), by_part.end());
  }
  std::vector<std::size_t> choice(shape_.size(), 0);
  while (true) {
    std::int64_t cell = 0;
    auto bytes = unsigned_of(element_size(grid_->dtype()));
    for (std::size_t d = 0; d < choice.size(); ++d) {
      cell += rows[d][choice[d]].first * cell_strides_[d];
      bytes *= unsigned_of(rows[d][choice[d]].second);
    }
    visit(grid_->cell(static_cast<std::size_t>(cell)), bytes);
    std::size_t d = choice.size();
    while (d > 0 && ++choice[d - 1] == rows[d - 1].size()) choice[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace reshardfs
