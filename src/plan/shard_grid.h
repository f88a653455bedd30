// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "layout/axis_partition.h"
#include "plan/content.h"

namespace reshardfs {

/// The source shards of one parameter: how the full tensor is cut, and who serves each cell.
///
/// Invariant: a cell's holding has the cell's shape (the product of its part lengths) and the
/// grid's element type, so that offsets computed from the partitions are right in the file.
struct ShardGrid {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape full_shape;
  std::vector<AxisPartition> partitions;  ///< one for each dimension of full_shape
  /// Row-major over the parts of the partitions. An empty holding: no source file has the cell.
  std::vector<Holding> cells;

  bool complete() const noexcept;
};

using ShardGridPtr = std::shared_ptr<const ShardGrid>;

/// The shape of an entry's elements; what is no array is one of bytes here.
Shape array_shape(const TensorEntry& entry);

/// A parameter that is taken as it stands in one file: a grid of one cell.
ShardGridPtr single_cell_grid(const Holding& holding);

}  // namespace reshardfs
