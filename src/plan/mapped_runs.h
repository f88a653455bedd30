// SPDX-License-Identifier: Apache-2.0
/// What a TensorView does where its tensor is made by a model map.
#pragma once

#include <functional>
#include <vector>

#include "plan/mapped_tensor.h"

namespace reshardfs {

/// A destination slice of a mapped tensor.
struct MappedSlice {
  const MappedTensor& tensor;
  const Shape& shape;
  const std::vector<std::vector<AxisSegment>>& segments;  ///< of the tensor, by dimension
};

/// As TensorView::for_each_run().
void for_each_mapped_run(const MappedSlice& slice, const ByteRange& bytes,
                         const std::function<void(const StridedRun&)>& visit);

}  // namespace reshardfs
