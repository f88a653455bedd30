// SPDX-License-Identifier: Apache-2.0
#include "view/megatron/core_names.h"

#include <algorithm>
#include <array>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

/// Modules of Megatron-Core and PyTorch.
constexpr std::array<std::string_view, 6> kPlainModules{
    ".router", ".shared_experts", ".mixer", ".mixer.norm", ".conv1d", ".self_attention"};

}  // namespace

CoreName parse_core_name(std::string_view name) {
  constexpr std::string_view kDecoder = "decoder.";
  constexpr std::string_view kLayers = "decoder.layers.";
  constexpr std::string_view kNextTokens = "mtp.";
  CoreName core;
  if (!name.starts_with(kDecoder) && !name.starts_with(kNextTokens)) return core;
  const std::size_t last = name.rfind('.');
  core.module = name.substr(0, last);
  for (const std::string_view before : {".weight", ".bias"}) {
    if (core.module.ends_with(before)) core.module.resize(core.module.size() - before.size());
  }
  core.has_state = std::none_of(kPlainModules.begin(), kPlainModules.end(),
                                [&](std::string_view end) { return core.module.ends_with(end); });
  core.has_experts = name.find(".mlp.experts.experts.") != std::string_view::npos;
  if (!name.starts_with(kLayers)) return core;
  const std::string_view rest = name.substr(kLayers.size());
  const bool numbered = parse_number(rest.substr(0, rest.find('.'))).has_value();
  core.layers = numbered ? CoreName::Layers::kNumbered : CoreName::Layers::kStacked;
  return core;
}

}  // namespace reshardfs
