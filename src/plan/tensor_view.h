// SPDX-License-Identifier: Apache-2.0
/// One destination slice of one parameter, as runs of bytes in source files.
///
/// The object: a destination slice is a product of parts, one for each dimension; so is every
/// source cell. For each dimension, overlay() gives the segments of the destination part. The
/// slice is therefore a product of segments: a destination index lies, in each dimension, in one
/// segment, and those segments name the source cell and the index in it.
///
/// Runs: let k be the last dimension in which the slice is not exactly one whole source part. All
/// dimensions behind k form one contiguous block of bytes, a segment of dimension k is one
/// contiguous run in source and destination, and rows that share their segments in the dimensions
/// before k-1 are equally far apart on both sides: a strided run.
///
/// Where the cells are boxes and no product, the segments are those of the full tensor: see
/// box_runs.h. So they are where a model map makes the tensor: see mapped_runs.h.
///
/// Cost: finding a byte is a binary search a dimension; memory is the segments alone, which does
/// not depend on the tensor's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "plan/shard_grid.h"

namespace reshardfs {

/// `count` pieces of `length` bytes, equally far apart in a cell's content and in the destination.
struct StridedRun {
  Holding holding;
  std::size_t cell = 0;                  ///< the number of the holding's cell in the grid
  std::uint64_t source_offset = 0;       ///< bytes, in the cell's content
  std::uint64_t destination_offset = 0;  ///< bytes, in the destination slice
  std::uint64_t length = 0;              ///< bytes of one piece, at least 1
  std::uint64_t count = 1;
  std::uint64_t source_stride = 0;  ///< bytes between the starts of pieces; >= length
  std::uint64_t destination_stride = 0;
  /// Of what no file holds because a model map states it: bytes that repeat, for as long as the run
  /// is visited. `holding` is empty then.
  const std::vector<std::byte>* literal = nullptr;
};

/// A tensor with more is refused.
inline constexpr std::size_t kMaxDimensions = 32;

/// A destination slice, for what makes its runs where the grid is no product of parts.
struct GridSlice {
  const ShardGrid& grid;
  const Shape& shape;
  const std::vector<std::vector<AxisSegment>>& segments;  ///< of the full tensor, by dimension
};

class TensorView {
 public:
  /// @param partitions the destination's cut of the same full shape as the grid's.
  /// @param parts the destination rank's part of each dimension.
  /// @throws Error kUnsupported with the parameter if it has more than kMaxDimensions, or packed
  ///         elements that the partitions cut inside of a byte.
  TensorView(ShardGridPtr grid, const std::vector<AxisPartition>& partitions,
             const std::vector<std::int64_t>& parts);
  /// The whole tensor.
  explicit TensorView(ShardGridPtr grid);

  const ShardGrid& grid() const noexcept { return packed_ ? *packed_->grid : *grid_; }
  /// The destination slice's shape.
  const Shape& shape() const noexcept { return packed_ ? packed_->shape : shape_; }
  std::uint64_t size() const noexcept { return size_; }

  /// Fills `out` with the slice's bytes from `offset` on; offset + out.size() <= size().
  /// @throws what the sources throw; Error kMissing if a cell has no source.
  void read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;

  /// Calls `visit` for the runs of a range of the slice's bytes, which cover it exactly once.
  void for_each_run(const ByteRange& bytes,
                    const std::function<void(const StridedRun&)>& visit) const;

  /// The slice of a source that this slice is, if it is one as it stands; else an
  /// empty holding.
  Holding whole_cell() const noexcept;

  /// The bytes of the slice by the source cell that serves them; each cell once.
  void for_each_cell(const std::function<void(const Holding&, std::uint64_t bytes)>& visit) const;

 private:
  struct RowPosition;
  /// What a view of packed elements shows, where all below counts in units.
  struct Packed {
    ShardGridPtr grid;
    Shape shape;
  };

  void cut(const std::vector<AxisPartition>& partitions, const std::vector<std::int64_t>& parts);
  void prepare();
  void read_from_file(StridedRun run, std::span<std::byte> place, ReadBatch& batch) const;
  bool is_whole(std::size_t dimension) const noexcept;
  RowPosition locate_row(std::uint64_t row) const;
  template <typename Visit>
  void visit_runs(const ByteRange& bytes, Visit&& visit) const;
  template <typename Visit>
  void visit_rows(std::uint64_t row, std::uint64_t count, std::uint64_t column,
                  std::uint64_t length, std::uint64_t destination, Visit&& visit) const;
  std::int64_t source_length(std::size_t dimension, std::int64_t part) const;
  GridSlice slice() const noexcept;

  std::shared_ptr<const Packed> packed_;
  ShardGridPtr grid_;
  Shape shape_;
  std::vector<std::vector<AxisSegment>> segments_;  ///< by dimension
  std::vector<std::int64_t> cell_strides_;          ///< of the grid of cells, by dimension
  std::uint64_t size_ = 0;
  /// k above. For a scalar, or if the slice is one whole cell, 0 with one run.
  std::size_t run_dimension_ = 0;
  std::uint64_t block_bytes_ = 0;  ///< one index of dimension k
  std::uint64_t row_bytes_ = 0;    ///< all of dimension k: one row
};

}  // namespace reshardfs
