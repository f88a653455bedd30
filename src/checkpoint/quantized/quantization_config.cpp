// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/quantization_config.h"

#include <algorithm>
#include <array>
#include <optional>

#include "reshardfs/error.h"

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

}  // namespace reshardfs
