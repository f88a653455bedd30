// SPDX-License-Identifier: Apache-2.0
/// One destination slice of one parameter, and the source bytes that it is made of.
///
/// A destination slice is a product of parts, one for each dimension. For each dimension, overlay()
/// divides the destination part into segments, so that the slice is a product of segments. If the
/// source's cells are a product of parts, too, each segment lies in one cell. If the cells are
/// boxes, or a model map makes the tensor, segments lie in the full tensor, and the boxes or the
/// map's form divide their regions further.
///
/// So one algorithm handles all cases: a byte range of the slice is at most 2n - 1 regions for n
/// dimensions. Segments, boxes and forms divide each region into nests of loops over the elements
/// of one cell.
///
/// Only the segments use memory, which does not depend on the tensor's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "layout/nest.h"
#include "plan/reading/content.h"
#include "plan/reading/source_nest.h"
#include "plan/reading/source_sinks.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

class ShownTensor {
 public:
  /// @param partitions the destination's cut of the same full shape as the grid's.
  /// @param parts the destination rank's part of each dimension.
  /// @throws Error kUnsupported with the parameter if it has more than kMaxDimensions, or packed
  ///         elements that the partitions cut inside a byte.
  ShownTensor(CellGridPtr grid, const std::vector<AxisPartition>& partitions,
              const std::vector<std::int64_t>& parts);
  /// The whole tensor.
  explicit ShownTensor(CellGridPtr grid);

  const CellGrid& grid() const noexcept { return packed_ ? *packed_->grid : *grid_; }
  /// The destination slice's shape.
  const Shape& shape() const noexcept { return packed_ ? packed_->shape : shape_; }
  std::uint64_t size() const noexcept { return size_; }

  /// Fills `out` with the slice's bytes from `offset` on; offset + out.size() <= size().
  /// @throws errors of the sources; Error kMissing if a cell has no source.
  void read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;

  /// Lists the sources that read() would read. Cells without a file are left out.
  void for_each_use(const ByteRange& bytes, SourceSink& sink) const;
  /// The elements [begin, begin + sizes) of each dimension of the slice.
  /// @throws Error kUnsupported if that cuts packed elements inside of a byte.
  ShownTensor box(const Shape& begin, const Shape& sizes) const;

  /// Calls `visit` for the runs of a range of the slice's bytes, which cover it exactly once.
  void for_each_run(const ByteRange& bytes,
                    const std::function<void(const StridedRun&)>& visit) const;

  /// The source slice that is identical to this slice; an empty holding if there is none.
  Holding whole_cell() const;

  /// Calls `visit` with the number of bytes that each source cell contributes; each cell once,
  /// ascending.
  void for_each_cell(const std::function<void(const Holding&, std::uint64_t bytes)>& visit) const;

  /// Calls `visit` for the sources of a nest of the slice's elements.
  /// @param first_cell is added to the cells' numbers.
  void for_each_source(const Nest& nest, std::size_t first_cell, VisitSource visit) const;

 private:
  using Segments = std::span<const AxisSegment* const>;
  /// The slice of a view of packed elements; all members below count in units.
  struct Packed {
    CellGridPtr grid;
    Shape shape;
  };

  void clip(const Shape& begin, const Shape& sizes);
  void cut(const std::vector<AxisPartition>& partitions, const std::vector<std::int64_t>& parts);
  void prepare();
  void read_parts(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;
  void read_from_file(StridedRun run, std::span<std::byte> place, ReadBatch& batch) const;
  void visit_bytes(const ByteRange& bytes, VisitSource visit) const;
  void visit_region(Region& region, std::size_t first_cell, VisitSource visit) const;
  void visit_cell(const Region& region, Segments segments, std::size_t first_cell,
                  VisitSource visit) const;
  void visit_boxes(const Region& region, std::size_t first_cell, VisitSource visit) const;

  std::shared_ptr<const Packed> packed_;
  CellGridPtr grid_;
  Shape shape_;
  std::vector<std::vector<AxisSegment>> segments_;  ///< by dimension
  std::vector<std::int64_t> cell_strides_;          ///< of the grid of cells, by dimension
  std::uint64_t element_ = 1;                       ///< bytes
  std::uint64_t size_ = 0;
};

}  // namespace reshardfs
