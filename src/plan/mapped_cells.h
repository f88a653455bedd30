// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "plan/content.h"
#include "plan/tensor_view.h"

namespace reshardfs {

/// As TensorView::for_each_cell(), of a grid that a model map makes. O(boxes of the slice) where
/// boxes take sources along their dimensions, whatever the number of elements; else it grows with
/// the number of runs.
void for_each_mapped_cell(const GridSlice& slice,
                          const std::function<void(const Holding&, std::uint64_t bytes)>& visit);

}  // namespace reshardfs
