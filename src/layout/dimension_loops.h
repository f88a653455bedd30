// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "layout/nest.h"

namespace reshardfs {

/// `count` indices of a dimension, `step` apart.
struct DimensionLoop {
  std::size_t dimension = 0;
  std::int64_t count = 1;
  std::int64_t step = 1;
};

/// `count` elements of a tensor, `stride` elements apart, as loops along its dimensions, from the
/// innermost on. Nothing if they do not go along dimensions: they begin or end inside one, or step
/// over its end.
/// @param count at least 1.
/// @param stride at least 1.
std::optional<PerDimension<DimensionLoop>> along_dimensions(std::int64_t count, std::int64_t stride,
                                                            std::span<const std::int64_t> shape);

}  // namespace reshardfs
