// SPDX-License-Identifier: Apache-2.0
/// What a TensorView does where the source's cells are boxes.
///
/// A range of the slice's bytes is a few blocks: some indexes of one dimension, all of those behind
/// it, one of those before. Each block is a product of segments as before, whose source is the full
/// tensor. So it is one range of the full tensor, or several, and the set finds the boxes that meet
/// it. What a block and a box share is runs again, of all dimensions but those behind k, where both
/// are whole.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/tensor_view.h"

namespace reshardfs {

/// A destination slice of a parameter whose grid has boxes.
struct BoxSlice {
  const ShardGrid& grid;
  const Shape& shape;
  const std::vector<std::vector<AxisSegment>>& segments;  ///< of the full tensor, by dimension
};

/// As TensorView::for_each_run().
void for_each_box_run(const BoxSlice& slice, const ByteRange& bytes,
                      const std::function<void(const StridedRun&)>& visit);

/// As TensorView::whole_cell().
Holding whole_box(const BoxSlice& slice) noexcept;

/// As TensorView::for_each_cell(), of a slice with elements. O(boxes that meet the slice's bounds).
void for_each_box(const BoxSlice& slice,
                  const std::function<void(const Holding&, std::uint64_t bytes)>& visit);

}  // namespace reshardfs
