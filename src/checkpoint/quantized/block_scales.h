// SPDX-License-Identifier: Apache-2.0
/// Weights in 8-bit floats with a scale for each block of the last two dimensions, as DeepSeek-V3
/// publishes its weights and others do since: `weight` with `weight_scale_inv`. Despite its name
/// the scale is the factor: a weight is float32(w) * scale.
/// https://huggingface.co/deepseek-ai/DeepSeek-V3, README_WEIGHTS.md
/// And what a model's config.json states of quantized weights: quantization_config, at the top or
/// in the part of it that is about the text model (text_config) or another.
#pragma once

#include <cstdint>
#include <optional>
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

/// Elements of a weight that share a scale; those at the ends of rows and columns may be fewer.
struct BlockShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  bool operator==(const BlockShape&) const = default;
};

/// More columns than a row has: a row has one scale, whatever its length is.
inline constexpr std::int64_t kWholeRow = std::int64_t{1} << 62;

/// weight_block_size of one quantization_config; nothing: it states none, or null.
/// @throws Error kBadInput if it is no pair of positive numbers.
std::optional<BlockShape> stated_block(const JsonValue& quantization, const std::string& config);

inline constexpr std::string_view kScaleSuffix = "_scale_inv";

/// "layers.0.mlp.down_proj.weight" for "layers.0.mlp.down_proj.weight_scale_inv"; empty for other
/// names.
std::string_view weight_of_scale(std::string_view name);

/// Whether tensors of a type are weights of which a scale is looked for.
bool is_block_weight(DType dtype) noexcept;
/// Whether it is a type of scales: BFloat16, Float32, Float8E8M0.
bool is_block_scale(DType dtype) noexcept;

/// How many blocks have all elements; the last one may have fewer.
std::int64_t blocks_in(std::int64_t elements, std::int64_t block);

/// The shape that the scales of a weight have; nothing if it has fewer than two dimensions.
std::optional<Shape> scale_shape(const Shape& weight, const BlockShape& block);

}  // namespace reshardfs
