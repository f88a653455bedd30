// SPDX-License-Identifier: Apache-2.0
/// Layouts of quantized weights, by the program that writes them: which tensors of a model make one
/// weight, and what they must be. Each function finds the weights of its method, and refuses what
/// it cannot read, with the name of the tensor.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/quantized/model_parts.h"
#include "checkpoint/quantized/statement.h"

namespace reshardfs {

/// "compressed-tensors": integers of 1 to 8 bits in words, NVFP4, MXFP4, MXFP6, MXFP8, FP8, INT8.
void find_compressed_tensors(ModelParts& parts, const QuantizationStatement& statement);
/// "fp8", "mxfp8": weights in 8-bit floats with a scale for each block, or one for all, and experts
/// of DeepSeek-V4 in MXFP4.
void find_float_blocks(ModelParts& parts, const QuantizationStatement& statement);
/// "mxfp4": gpt-oss, whose experts are shown with rows and columns exchanged.
void find_gpt_oss(ModelParts& parts, const QuantizationStatement& statement);
/// "modelopt": FP8, MXFP8, NVFP4, MXFP4, INT8.
void find_modelopt(ModelParts& parts, const QuantizationStatement& statement);
/// "gptq", "awq": integers in words, with zero points.
void find_integer_words(ModelParts& parts, const QuantizationStatement& statement);

/// The scales of a weight: refuses their shape or type, else makes them a part of it.
/// @param rows of `block`; columns likewise. One value may stand for all.
/// @return whether they are of that shape and type
bool take_scales(ModelParts& parts, const TensorEntry& codes, const TensorEntry& scales,
                 const BlockShape& block, QuantizedWeight& weight);

/// Whether it is an integer's type for packed words.
inline bool is_word(DType dtype) {
  return dtype == DType::kInt32;
}

}  // namespace reshardfs
