// SPDX-License-Identifier: Apache-2.0
#include "view/hf/shown_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_copy.h"
#include "checkpoint/quantized/block_scales.h"

namespace reshardfs {
namespace {

constexpr std::string_view kModule = "torch.";
constexpr std::string_view kQuantizationKey = "quantization_config";

/// As config.json has it; empty for a type that is not for weights.
std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    default:
      return {};
  }
}

bool is_type_key(std::string_view key) {
  return key == "torch_dtype" || key == "dtype";
}

/// "float32" for "torch.float32"; nothing if it is no such type.
std::optional<std::string_view> float_type(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTypes{"float16", "bfloat16", "float32",
                                                   "float64", "half",     "float"};
  if (text.starts_with(kModule)) text.remove_prefix(kModule.size());
  if (std::find(kTypes.begin(), kTypes.end(), text) == kTypes.end()) return std::nullopt;
  if (text == "half") return "float16";
  return text == "float" ? "float32" : text;
}

void add_types(const JsonValue& object, std::vector<std::string>& types) {
  for (const JsonValue member : object) {
    if (!is_type_key(member.key()) || !member.text()) continue;
    if (const auto type = float_type(*member.text())) types.emplace_back(*type);
  }
  for (const JsonValue member : object) {
    if (member.is_object() && !is_quantization_key(member.key())) add_types(member, types);
  }
}

}  // namespace

ShownTypes shown_types(const TargetTable& table, const TakesParameter& takes) {
  ShownTypes types;
  std::map<std::string_view, std::int64_t> elements;
  for (const TargetParameter& parameter : table.parameters()) {
    if (!is_array(parameter.dtype) || parameter.grid == nullptr || !takes(parameter)) continue;
    const Shape shape = parameter.grid->full_shape();
    types.are_quantized = types.are_quantized || may_be_quantized(parameter.dtype, shape);
    const std::string_view name = torch_name(parameter.dtype);
    if (name.empty()) continue;
    elements[name] += element_count(shape);
    types.are_converted = types.are_converted || parameter.dtype != parameter.source->dtype;
  }
  for (const auto& [name, count] : elements) types.floats.emplace_back(name);
  std::stable_sort(types.floats.begin(), types.floats.end(),
                   [&](const auto& a, const auto& b) { return elements[a] > elements[b]; });
  return types;
}

NvStatement nv_statement(const std::vector<std::string>& ignored) {
  constexpr const char* kAlgorithm = "W4A16_NVFP4";
  constexpr int kGroup = 16;
  JsonWriter config;
  config.open_object();
  config.open_object("config_groups");
  config.open_object("group_0");
  config.open_object("weights");
  config.member("dynamic", false);
  config.member("num_bits", 4);
  config.member("type", "float");
  config.member("group_size", kGroup);
  config.close_object();
  config.texts("targets", std::vector<std::string>{"Linear"});
  config.close_object();
  config.close_object();
  config.member("group_size", kGroup);
  config.texts("ignore", ignored);
  config.member("quant_algo", kAlgorithm);
  config.member("quant_method", "modelopt");
  config.close_object();
  JsonWriter beside(JsonStyle{.after_key = ": ", .indent = 2});
  beside.open_object();
  beside.open_object("quantization");
  beside.member("quant_algo", kAlgorithm);
  beside.null_member("kv_cache_quant_algo");
  beside.member("group_size", kGroup);
  beside.texts("exclude_modules", ignored);
  beside.close_object();
  beside.close_object();
  return {config.take(), beside.take() + "\n"};
}

std::vector<std::string> stated_types(const JsonValue& config) {
  std::vector<std::string> types;
  if (config.is_object()) add_types(config, types);
  return types;
}

std::string edited_config(std::string_view config, const ConfigEdits& edits) {
  JsonReader reader(config);
  reader.require(JsonKind::kObject);
  JsonWriter writer(JsonStyle{.after_key = ": ", .indent = 2});
  copy_json(reader, writer, [&](JsonReader& in, JsonWriter& out) {
    const std::string key(in.key());
    if (is_quantization_key(key)) {
      if (edits.is_dequantized) return true;
      if (!edits.quantization.empty()) {
        if (key == kQuantizationKey) out.written_member(key, edits.quantization);
        return true;
      }
      out.key(key);
      copy_json(in, out);  // types in it are not those of the weights
      return true;
    }
    if (edits.type.empty() || !is_type_key(key) || in.kind() != JsonKind::kText) return false;
    const std::string stated(in.text());
    if (!float_type(stated)) return false;
    out.member(key, (stated.starts_with(kModule) ? std::string(kModule) : "") + edits.type);
    return true;
  });
  reader.finish();
  return writer.take() + "\n";
}

}  // namespace reshardfs
