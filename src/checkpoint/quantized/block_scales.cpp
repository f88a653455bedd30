// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/block_scales.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_value.h"

namespace reshardfs {
namespace {

void find_in(const JsonValue& object, std::vector<JsonValue>& found) {
  for (const JsonValue member : object) {
    if (!member.is_object()) continue;
    if (is_quantization_key(member.key())) {
      found.push_back(member);
    } else {
      find_in(member, found);
    }
  }
}

std::string words_of(const JsonValue& quantization) {
  const auto method = quantization.find("quant_method");
  if (!method || !method->text()) return "a method without a name";
  std::string words = printable(std::string(*method->text()));
  for (const char* const key : {"quant_algo", "format"}) {
    const auto more = quantization.find(key);
    if (more && more->text()) words += " " + printable(std::string(*more->text()));
  }
  if (const auto bits = quantization.find("bits"); bits && bits->integer()) {
    words += " " + std::to_string(*bits->integer()) + " bits";
  }
  const auto block = quantization.find("weight_block_size");
  if (!block || !block->is_list() || block->size() != 2) return words;
  const auto rows = (*block->begin()).integer();
  const auto columns = (*++block->begin()).integer();
  if (!rows || !columns) return words;
  return words + " in blocks of " + std::to_string(*rows) + " x " + std::to_string(*columns);
}

constexpr const char* kBlock = "weight_block_size";
constexpr std::int64_t kMostOfBlock = 1 << 30;

}  // namespace

bool is_quantization_key(std::string_view key) noexcept {
  return key == "quantization_config" || key == "compression_config";
}

std::vector<JsonValue> quantizations_in(const JsonValue& config) {
  std::vector<JsonValue> found;
  if (config.is_object()) find_in(config, found);
  return found;
}

std::vector<std::string> quantization_methods(const JsonValue& config) {
  std::vector<std::string> methods;
  for (const JsonValue& quantization : quantizations_in(config)) {
    std::string words = words_of(quantization);
    if (std::find(methods.begin(), methods.end(), words) == methods.end()) {
      methods.push_back(std::move(words));
    }
  }
  return methods;
}

bool may_be_quantized(DType dtype, const Shape& shape) noexcept {
  constexpr std::array kPlain{DType::kBool,    DType::kInt64,    DType::kUInt64,
                              DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                              DType::kFloat64, DType::kComplex64};
  const bool is_plain = std::find(kPlain.begin(), kPlain.end(), dtype) != kPlain.end();
  return is_array(dtype) && !is_plain && shape.size() > 1;
}

std::optional<BlockShape> stated_block(const JsonValue& quantization, const std::string& config) {
  const auto block = quantization.find(kBlock);
  if (!block || block->is_null()) return std::nullopt;
  std::vector<std::int64_t> lengths;
  for (const JsonValue value : *block) {
    const auto length = value.integer();
    if (length && *length > 0 && *length <= kMostOfBlock) lengths.push_back(*length);
  }
  if (!block->is_list() || block->size() != 2 || lengths.size() != 2) {
    throw Error(ErrorKind::kBadInput, "quantization_config.weight_block_size is no pair of lengths")
        .in_file(config);
  }
  return BlockShape{lengths[0], lengths[1]};
}

std::string_view weight_of_scale(std::string_view name) {
  if (!name.ends_with(kScaleSuffix) || name.size() == kScaleSuffix.size()) return {};
  name.remove_suffix(kScaleSuffix.size());
  return name;
}

bool is_block_weight(DType dtype) noexcept {
  return dtype == DType::kFloat8E4M3;
}

bool is_block_scale(DType dtype) noexcept {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat8E8M0;
}

std::int64_t blocks_in(std::int64_t elements, std::int64_t block) {
  return elements / block + (elements % block == 0 ? 0 : 1);
}

std::optional<Shape> scale_shape(const Shape& weight, const BlockShape& block) {
  if (weight.size() < 2) return std::nullopt;
  Shape shape = weight;
  const std::size_t columns = weight.size() - 1;
  shape[columns - 1] = blocks_in(weight[columns - 1], block.rows);
  shape[columns] = blocks_in(weight[columns], block.columns);
  return shape;
}

}  // namespace reshardfs
