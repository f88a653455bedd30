// SPDX-License-Identifier: Apache-2.0
/// What a run of elements, or a nest of loops over them, is in the dimensions of their tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reshardfs/shape.h"

#include "base/function_ref.h"
#include "layout/axis_partition.h"
#include "layout/box_set.h"
#include "layout/nest.h"

namespace reshardfs {

/// May change the region while it runs, but leaves it as it was: so cutting it further needs no
/// copy.
using VisitRegion = FunctionRef<void(Region&)>;

/// Calls `visit` for the regions of a tensor that make up the elements of a nest, whose `from`
/// counts in C order. O(1) regions where the loops go along dimensions. Where a loop does not, or
/// where several go along one dimension, each of its indexes is visited; of elements that follow
/// one another, at most 2n - 1 regions for n dimensions.
/// @param shape of a tensor that has elements.
void for_each_region(const Nest& nest, std::span<const std::int64_t> shape, VisitRegion visit);

/// The same of elements [first, first + count); the first one goes to element `to`, the next ones
/// behind it. The regions come in this order.
void for_each_region(std::int64_t first, std::int64_t count, std::int64_t to,
                     std::span<const std::int64_t> shape, VisitRegion visit);

/// A region of a destination part, in one segment of each dimension.
using VisitParts = FunctionRef<void(const Region&, std::span<const AxisSegment* const>)>;

/// Cuts a region of a destination part by the segments that overlay() gives of each dimension.
/// `visit` gets indexes of the source parts.
/// @param region as it was again at the end.
void for_each_segment(Region& region, std::span<const std::vector<AxisSegment>> segments,
                      VisitParts visit);

/// Calls `visit` for what a region has of each box, with indexes of the tensor.
void for_each_box(const Region& region, const BoxSet& boxes,
                  FunctionRef<void(const Region&, std::size_t number)> visit);
/// Calls `visit` for what it has of no box.
void for_each_gap(const Region& region, const BoxSet& boxes, VisitRegion visit);

/// As loops over a tensor's elements.
/// @param strides elements of the source from one index to the next, by dimension.
Nest nest_of(const Region& region, std::span<const std::int64_t> strides) noexcept;

/// The same of a tensor in C order.
/// @param length_of gives the indexes of a dimension.
template <typename LengthOf>
Nest nest_in(const Region& region, LengthOf&& length_of) noexcept {
  Nest nest;
  nest.to = region.to;
  std::int64_t stride = 1;
  for (std::size_t d = region.ranges.size(); d-- > 0;) {
    const IndexRange& range = region.ranges[d];
    nest.from += range.begin * stride;
    nest.add({range.count, range.step * stride, range.to});
    stride *= length_of(d);
  }
  nest.join();
  return nest;
}

}  // namespace reshardfs
