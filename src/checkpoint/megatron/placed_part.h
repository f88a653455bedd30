// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reshardfs/shape.h"

#include "checkpoint/megatron/tensor_cuts.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// One of several ranks, or of several experts.
struct OneOf {
  std::int64_t number = 0;
  std::int64_t count = 1;
};

/// What a rank has of a whole tensor.
struct PlacedPart {
  Shape full_shape{};
  std::vector<TorchTensor> boxes{};  ///< one, or two of a gated tensor; without names
  std::vector<Shape> offsets{};      ///< of each box, in elements
};

/// @param tensor what the rank has. For kGatedRows, its first dimension is even.
/// @param rank that has it, of those that share it.
/// @param expert if given, the whole tensor has all experts along a dimension before the others.
/// @throws Error kBadInput if the whole tensor would be too large.
PlacedPart place_part(const TorchTensor& tensor, MegatronCut cut, const OneOf& rank,
                      const std::optional<OneOf>& expert);

}  // namespace reshardfs
