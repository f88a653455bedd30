// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/shape.h"

#include "checkpoint/quantized/model_parts.h"

namespace reshardfs {

/// A tensor that is stored of a quantized weight: codes, scales, zero points. Cutting the weight
/// cuts it, too, or every part of the weight needs all of it.
struct WeightPart {
  std::string weight{};  ///< the name of what dequantize() shows
  Shape shape{};         ///< likewise
  bool is_codes = false;
  /// Along each dimension of the weight:
  struct Along {
    std::optional<std::size_t> dimension{};  ///< of the part, which is cut alike; nothing: none
    /// So many elements of the weight have a scale, a word or a byte in common, in this part or in
    /// another one.
    std::int64_t together = 1;
  };
  std::vector<Along> along{};
};

/// By the names of the parts.
std::map<std::string, WeightPart> weight_parts(std::span<const ModelParts::Shown> weights);

/// "INT4 in groups of 128", "MXFP4 in groups of 32", "FP8 in blocks of 128 x 128".
std::string form_words(const QuantizedWeight& weight);

}  // namespace reshardfs
