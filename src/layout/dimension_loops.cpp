// SPDX-License-Identifier: Apache-2.0
#include "layout/dimension_loops.h"

namespace reshardfs {

std::optional<PerDimension<DimensionLoop>> along_dimensions(std::int64_t count, std::int64_t stride,
                                                            std::span<const std::int64_t> shape) {
  const auto strides = element_strides(shape);
  PerDimension<DimensionLoop> loops;
  while (count > 1) {
    std::size_t d = 0;
    while (d < shape.size() && (shape[d] == 1 || strides[d] > stride)) ++d;
    if (d == shape.size() || stride % strides[d] != 0) return std::nullopt;
    const std::int64_t step = stride / strides[d];
    const std::int64_t fitting = (shape[d] - 1) / step + 1;
    if (count <= fitting) {
      loops.push_back({d, count, step});
      return loops;
    }
    // Over several rows: whole ones alone.
    if (shape[d] % step != 0 || count % fitting != 0) return std::nullopt;
    if (fitting > 1) loops.push_back({d, fitting, step});
    count /= fitting;
    stride = strides[d] * shape[d];
  }
  return loops;
}

}  // namespace reshardfs
