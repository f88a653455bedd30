// SPDX-License-Identifier: Apache-2.0
/// config.json, where it would not describe the weights that are shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_value.h"
#include "view/weights.h"

namespace reshardfs {

struct ShownTypes {
  /// The floating-point types of weights as config.json has them, "float32", that of most elements
  /// first.
  std::vector<std::string> floats{};
  bool are_converted = false;  ///< whether --cast has converted any of these
  bool are_quantized = false;  ///< whether any weight may be stored as a quantized model's
};

/// @param takes selects the weights.
ShownTypes shown_types(const TargetTable& table, const TakesParameter& takes);

/// The types that a configuration states, as torch_dtype or dtype: at its top first, then in the
/// parts of it that are about single models (text_config, vision_config).
std::vector<std::string> stated_types(const JsonValue& config);

struct ConfigEdits {
  bool is_dequantized = false;  ///< nothing in it states that weights are quantized
  std::string type{};           ///< that stands wherever it states one; empty: it stays
  std::string quantization{};   ///< JSON that states how they are; empty: as it does

  bool any() const noexcept { return is_dequantized || !quantization.empty() || !type.empty(); }
};

/// modelopt's statement of weights in W4A16_NVFP4, for config.json and for hf_quant_config.json.
/// @param ignored modules whose weights are in no such form.
struct NvStatement {
  std::string config;
  std::string beside;
};
NvStatement nv_statement(const std::vector<std::string>& ignored);

/// The text of a config.json, with these changes.
/// @throws Error kBadInput if it is no object of JSON.
std::string edited_config(std::string_view config, const ConfigEdits& edits);

}  // namespace reshardfs
