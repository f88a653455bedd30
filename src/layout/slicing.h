// SPDX-License-Identifier: Apache-2.0
/// A layout applied to a shape: which part of the full tensor each rank of a stage holds.
///
/// The tensor is cut into a grid of *cells*, the product of one AxisPartition for each dimension.
/// Every rank holds exactly one cell; ranks that hold the same cell are replicas. The tensor map
/// gives each dimension the product of its axes as number of parts and each rank a position in it
/// (first axis major). An optimizer cut of size s then divides dimension 0 of the cell in s equal
/// parts more; among the ranks that held the same cell, in ascending order, the k-th takes part k
/// modulo s. Formulas: FORMATS of MindSpore's strategy files, summarised in reshardfs(1).
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/shape.h"

#include "layout/axis_partition.h"

namespace reshardfs {

class Slicing {
 public:
  /// @throws Error kBadInput if the layout is impossible, has another number of dimensions than
  ///         the shape, or a dimension is not divisible; names the dimension and both numbers.
  Slicing(const Layout& layout, const Shape& full_shape);

  /// Every one of `devices` ranks holds the whole tensor.
  static Slicing replicated(const Shape& full_shape, std::int64_t devices);

  const Shape& full_shape() const noexcept { return full_shape_; }
  /// One for each dimension; none for a scalar.
  const std::vector<AxisPartition>& partitions() const noexcept { return partitions_; }
  std::int64_t devices() const noexcept { return devices_; }
  /// The product of the partitions' parts.
  std::int64_t cell_count() const noexcept { return cell_count_; }

  /// The part of each dimension that a rank holds. 0 <= local_rank < devices(). O(axes).
  std::vector<std::int64_t> parts_of(std::int64_t local_rank) const;
  /// parts_of() as one number, row-major over the grid of cells.
  std::int64_t cell_of(std::int64_t local_rank) const;
  /// The shape of what a rank stores.
  Shape slice_shape(std::int64_t local_rank) const;

 private:
  Slicing() = default;

  Shape full_shape_;
  std::vector<AxisPartition> partitions_;
  std::vector<std::int64_t> device_matrix_;
  /// Axes of the device matrix from the left: those that cut dimension d, and those that cut none.
  std::vector<std::vector<std::size_t>> cutting_axes_;
  std::vector<std::size_t> free_axes_;
  std::int64_t optimizer_parts_ = 1;
  std::int64_t devices_ = 1;
  std::int64_t cell_count_ = 1;
};

/// How often each dimension is cut by a layout, optimizer cut included.
/// @throws Error kBadInput as the constructor of Slicing.
std::vector<std::int64_t> splits_of(const Layout& layout);

/// The full tensor's shape, from the equal slice that every rank holds: slice times splits.
/// @throws Error kBadInput as the constructor of Slicing.
Shape full_shape_of(const Layout& layout, const Shape& slice);

}  // namespace reshardfs
