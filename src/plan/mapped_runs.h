// SPDX-License-Identifier: Apache-2.0
/// What a TensorView does where its tensor is made by a model map.
#pragma once

#include <functional>

#include "plan/tensor_view.h"

namespace reshardfs {

/// As TensorView::for_each_run(), of a grid that is mapped().
void for_each_mapped_run(const GridSlice& slice, const ByteRange& bytes,
                         const std::function<void(const StridedRun&)>& visit);

}  // namespace reshardfs
