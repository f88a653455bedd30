// SPDX-License-Identifier: Apache-2.0
/// A layout applied to a shape: which part of the full tensor each rank of a stage holds.
///
/// The tensor is cut into a grid of *cells*, the product of one AxisPartition for each dimension.
/// Every rank holds exactly one cell; ranks that hold the same cell are replicas. The tensor map
/// gives each dimension the product of its axes as number of parts and each rank a position in it
/// (first axis major). An optimizer cut of size s then divides dimension 0 of the cell in s equal
/// parts more; among the ranks that held the same cell, in ascending order, the k-th takes part k
/// modulo s. Parts of a dimension are equally long unless the layout says otherwise (uneven,
/// param_split_shape), and contiguous unless it has fields: then every part has rows of each field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/shape.h"

#include "layout/axis_partition.h"
#include "layout/device_grid.h"

namespace reshardfs {

/// Every device has the whole of a tensor of so many dimensions.
Layout whole_layout(std::size_t devices, std::size_t dimensions);

class Slicing {
 public:
  /// @throws Error kBadInput if the layout is impossible, has another number of dimensions than
  ///         the shape, or does not fit a dimension; names the dimension and both numbers.
  Slicing(const Layout& layout, const Shape& full_shape);

  /// One rank that holds the whole tensor.
  static Slicing whole(const Shape& full_shape);

  const Shape& full_shape() const noexcept { return full_shape_; }
  /// One for each dimension; none for a scalar.
  const std::vector<AxisPartition>& partitions() const noexcept { return partitions_; }
  std::int64_t devices() const noexcept { return grid_.devices(); }
  /// The product of the partitions' parts.
  std::int64_t cell_count() const noexcept { return cell_count_; }

  /// The part of each dimension that a rank holds. 0 <= local_rank < devices(). O(axes).
  std::vector<std::int64_t> parts_of(std::int64_t local_rank) const {
    return grid_.parts_of(local_rank);
  }
  /// parts_of() as one number, row-major over the grid of cells.
  std::int64_t cell_of(std::int64_t local_rank) const;
  /// The shape of what a rank stores.
  Shape slice_shape(std::int64_t local_rank) const;

 private:
  DeviceGrid grid_;
  Shape full_shape_;
  std::vector<AxisPartition> partitions_;
  std::int64_t cell_count_ = 1;
};

/// A rank of the stage, and the shape of what it stores.
using RankSlice = std::pair<std::int64_t, Shape>;

/// The full tensor's shape, from the slices that ranks hold. Evenly cut dimensions follow from any
/// slice; a balanced one needs a slice of each part.
/// @param slices at least one, all of as many dimensions as the layout.
/// @throws Error kBadInput as the constructor of Slicing, kMissing if a part is on no rank.
Shape full_shape_of(const Layout& layout, const std::vector<RankSlice>& slices);

}  // namespace reshardfs
