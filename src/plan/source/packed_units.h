// SPDX-License-Identifier: Apache-2.0
/// Tensors of packed elements, counted in units that fill whole bytes.
///
/// Elements are stored in C order, without gaps at the ends of rows, so that several rows may be
/// needed to fill whole bytes. The *packed* dimension is the last one for which the elements of it
/// and all later dimensions are a multiple of a unit. Earlier dimensions can be cut anywhere, later
/// ones nowhere, and the packed dimension where its rows begin on a byte. Counted in units, a
/// tensor ends with the packed dimension, and is like a tensor of any other type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "layout/axis_partition.h"
#include "layout/box_set.h"

namespace reshardfs {

class PackedUnits {
 public:
  /// @param dtype a packed type.
  /// @throws Error kUnsupported if the elements do not fill whole bytes.
  PackedUnits(Shape full, DType dtype);

  /// The packed dimension is the last one.
  const Shape& full_shape() const noexcept { return units_; }
  /// @param partitions of the full shape, one for each dimension.
  /// @return one for each dimension of full_shape().
  /// @throws Error kUnsupported if one cuts inside a byte; names the dimension and what fits.
  std::vector<AxisPartition> of(const std::vector<AxisPartition>& partitions) const;
  /// The part of each dimension of full_shape().
  std::vector<std::int64_t> of(const std::vector<std::int64_t>& parts) const {
    return {parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(units_.size())};
  }
  /// @param box of the full tensor. @throws Error as above.
  Box of(const Box& box) const;

 private:
  std::size_t packed() const noexcept { return units_.size() - 1; }
  bool is_inside_byte(std::int64_t row) const noexcept { return row * behind_ % per_unit_ != 0; }
  [[noreturn]] void refuse(std::size_t dimension, std::int64_t row) const;

  Shape full_;
  Shape units_;
  std::string type_;
  std::int64_t per_unit_;
  std::int64_t behind_ = 1;  ///< elements of one row of the packed dimension
};

}  // namespace reshardfs
