// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/tensor_names.h"

#include <algorithm>
#include <array>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr std::string_view kDecoder = "decoder.layers.";
constexpr std::string_view kExperts = ".experts.";
constexpr std::string_view kLocalExperts = "local_experts.";
constexpr std::size_t kMostChunks = 4096;

}  // namespace

std::optional<ModelName> parse_model_name(std::string_view name) {
  constexpr std::string_view kModel = "model";
  if (!name.starts_with(kModel)) return std::nullopt;
  name.remove_prefix(kModel.size());
  ModelName out;
  if (!name.starts_with('.')) {
    const auto chunk = take_number<std::size_t>(name);
    if (!chunk || *chunk >= kMostChunks || !name.starts_with('.')) return std::nullopt;
    out.chunk = *chunk;
    out.numbered = true;
  }
  out.local = name.substr(1);
  // Newer releases call the layer of a GPTModel so, which whole models have under the name before.
  constexpr std::string_view kModule = ".mtp_model_layer.";
  const std::size_t at = out.local.find(kModule);
  const bool is_gpt =
      at != std::string::npos && out.local.starts_with("mtp.layers.") &&
      !std::string_view(out.local).substr(at + kModule.size()).starts_with("layers.");
  if (is_gpt) out.local.replace(at, kModule.size(), ".transformer_layer.");
  return out;
}

bool is_extra_state(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return name.substr(dot == std::string_view::npos ? 0 : dot + 1).starts_with("_extra_state");
}

std::optional<std::int64_t> decoder_layer(std::string_view name) {
  if (!name.starts_with(kDecoder)) return std::nullopt;
  name.remove_prefix(kDecoder.size());
  const auto layer = take_number<std::int64_t>(name);
  return layer && name.starts_with('.') ? layer : std::nullopt;
}

std::string with_layer(std::string_view name, std::int64_t layer) {
  const std::size_t end = name.find('.', kDecoder.size());
  return std::string(kDecoder) + std::to_string(layer) + std::string(name.substr(end));
}

std::string other_layers(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos || decoder_layer(name)) return {};
  return std::string(name.substr(0, at + kLayers.size()));
}

std::optional<ExpertName> parse_expert(std::string_view name) {
  const std::size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string begin(name.substr(0, at + kExperts.size()));
  std::string_view rest = name.substr(begin.size());
  if (rest.starts_with(kLocalExperts)) {
    rest.remove_prefix(kLocalExperts.size());
    const auto number = take_number<std::int64_t>(rest);
    if (!number || !rest.starts_with('.')) return std::nullopt;
    return ExpertName{begin + "experts" + std::string(rest), *number};
  }
  constexpr std::array<std::string_view, 2> kModules{"linear_fc1.", "linear_fc2."};
  const bool known = std::any_of(kModules.begin(), kModules.end(),
                                 [&](std::string_view module) { return rest.starts_with(module); });
  const std::size_t digits = rest.find_last_not_of("0123456789") + 1;
  if (!known || digits == rest.size()) return std::nullopt;
  const auto number = parse_number(rest.substr(digits));
  const std::string_view parameter = rest.substr(0, digits);
  if (!number || !(parameter.ends_with(".weight") || parameter.ends_with(".bias"))) {
    return std::nullopt;
  }
  return ExpertName{begin + "experts." + std::string(parameter), *number};
}

}  // namespace reshardfs
