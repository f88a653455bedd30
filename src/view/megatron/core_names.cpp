// SPDX-License-Identifier: Apache-2.0
#include "view/megatron/core_names.h"

#include "base/text/numbers.h"

namespace reshardfs {

CoreName parse_core_name(std::string_view name) {
  constexpr std::string_view kDecoder = "decoder.";
  constexpr std::string_view kLayers = "decoder.layers.";
  constexpr std::string_view kNextTokens = "mtp.";
  CoreName core;
  if (!name.starts_with(kDecoder) && !name.starts_with(kNextTokens)) return core;
  const std::size_t last = name.rfind('.');
  core.module = name.substr(0, last);
  core.has_experts = name.find(".mlp.experts.experts.") != std::string_view::npos;
  if (!name.starts_with(kLayers)) return core;
  const std::string_view rest = name.substr(kLayers.size());
  const bool numbered = parse_number(rest.substr(0, rest.find('.'))).has_value();
  core.layers = numbered ? CoreName::Layers::kNumbered : CoreName::Layers::kStacked;
  return core;
}

}  // namespace reshardfs
