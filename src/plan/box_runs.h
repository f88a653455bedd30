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

/// As TensorView::for_each_run(), of a grid that has boxes.
void for_each_box_run(const GridSlice& slice, const ByteRange& bytes,
                      const std::function<void(const StridedRun&)>& visit);

/// As TensorView::whole_cell().
Holding whole_box(const GridSlice& slice) noexcept;

/// As TensorView::for_each_cell(), of a slice with elements. O(boxes that meet the slice's bounds).
void for_each_box(const GridSlice& slice,
                  const std::function<void(const Holding&, std::uint64_t bytes)>& visit);

}  // namespace reshardfs
