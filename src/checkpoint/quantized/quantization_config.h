// SPDX-License-Identifier: Apache-2.0
/// What a model's config.json states of quantized weights: quantization_config, at the top or in
/// the part of it that is about the text model (text_config) or another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/json/json_value.h"

namespace reshardfs {

/// Whether a member of this name states how weights are quantized, and nothing else.
bool is_quantization_key(std::string_view key) noexcept;

/// The objects of these names in a configuration, the outer ones first.
std::vector<JsonValue> quantizations_in(const JsonValue& config);

/// "awq", "gptq 4 bits", "fp8 in blocks of 128 x 128": the method of each of them, once. Empty if
/// there is none.
std::vector<std::string> quantization_methods(const JsonValue& config);

/// Whether a tensor may hold weights as a quantized model stores them: in integers or in floats of
/// 8 bits and fewer, in rows. (Tables of scales and buffers have one dimension, or 64 bits.)
bool may_be_quantized(DType dtype, const Shape& shape) noexcept;

}  // namespace reshardfs
