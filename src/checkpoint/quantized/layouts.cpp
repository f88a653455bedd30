// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/layouts.h"

#include <algorithm>

#include "checkpoint/quantized/codes.h"

namespace reshardfs {

bool take_scales(ModelParts& parts, const TensorEntry& codes, const TensorEntry& scales,
                 const BlockShape& block, QuantizedWeight& weight) {
  if (!is_scale_type(scales.dtype)) {
    parts.refuse("its scale is of the type " + std::string(mindspore_name(scales.dtype)),
                 codes.name);
    return false;
  }
  const Shape shape = scales.shape;
  const auto wanted = scale_shape(weight.shape, block);
  if (!wanted || shape != *wanted) {
    parts.refuse("its scale does not have a value for each block of " + std::to_string(block.rows) +
                     " x " + std::to_string(block.columns),
                 codes.name);
    return false;
  }
  weight.block = block;
  weight.scales = parts.stored(scales);
  return true;
}

}  // namespace reshardfs
