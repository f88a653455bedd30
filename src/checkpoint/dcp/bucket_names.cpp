// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/bucket_names.h"

#include <array>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr std::string_view kLayersPart = ".layers.";
constexpr std::string_view kStackedExperts = ".mlp.experts.experts.";

/// The modules of a layer, and the parameters of a module, as they are registered.
constexpr std::array<std::string_view, 19> kLayerModules{"input_layernorm.",
                                                         "self_attention.core_attention.",
                                                         "self_attention.linear_proj.",
                                                         "self_attention.linear_q_proj.",
                                                         "self_attention.linear_q_down_proj.",
                                                         "self_attention.linear_q_up_proj.",
                                                         "self_attention.linear_kv_down_proj.",
                                                         "self_attention.linear_kv_up_proj.",
                                                         "self_attention.linear_qkv.",
                                                         "self_attention.q_layernorm.",
                                                         "self_attention.k_layernorm.",
                                                         "pre_mlp_layernorm.",
                                                         "mlp.router.",
                                                         "mlp.linear_fc1.",
                                                         "mlp.linear_fc2.",
                                                         "mlp.experts.experts.linear_fc1.",
                                                         "mlp.experts.experts.linear_fc2.",
                                                         "mlp.shared_experts.linear_fc1.",
                                                         "mlp.shared_experts.linear_fc2."};
constexpr std::array<std::string_view, 4> kModuleParameters{"layer_norm_weight", "layer_norm_bias",
                                                            "weight", "bias"};
constexpr std::array<std::string_view, 5> kModelParts{"embedding.", "decoder.layers.", "decoder.",
                                                      "mtp.", "output_layer."};

/// Behind `words`, which the text is cut off to.
bool take_words(std::string_view& text, std::string_view words) {
  if (!text.starts_with(words)) return false;
  text.remove_prefix(words.size());
  return true;
}

std::optional<std::int64_t> take_index(std::string_view& text, std::string_view words) {
  if (!take_words(text, words)) return std::nullopt;
  return take_number<std::int64_t>(text, 10);
}

}  // namespace

std::optional<BucketName> parse_bucket_name(std::string_view name) {
  constexpr std::string_view kGroup = "optimizer.distributed.dp_group_idx_";
  const std::size_t begin = name.find(kGroup);
  if (begin == std::string_view::npos) return std::nullopt;
  BucketName out;
  out.chain = name.substr(0, begin);
  std::string_view rest = name.substr(begin);
  const auto group = take_index(rest, kGroup);
  const auto buffer = group ? take_index(rest, ".gbuf_idx_") : std::nullopt;
  if (!buffer || !take_words(rest, ".dtype_")) return std::nullopt;
  const std::size_t types = rest.find(").");
  if (types == std::string_view::npos) return std::nullopt;
  out.types = rest.substr(0, types + 1);
  rest.remove_prefix(types + 1);
  const auto bucket = take_index(rest, ".bucket_idx_");
  if (!bucket || !take_words(rest, ".") || rest.empty()) return std::nullopt;
  out.group = *group;
  out.buffer = *buffer;
  out.bucket = *bucket;
  out.state = rest;
  return out;
}

RegisteredPlace registered_place(std::string_view name, std::int64_t layer, std::int64_t expert) {
  RegisteredPlace place;
  std::size_t part = 0;
  while (part < kModelParts.size() && !name.starts_with(kModelParts[part])) ++part;
  place.is_known = part < kModelParts.size();
  std::size_t module = 0;
  std::size_t parameter = 0;
  const std::size_t layers = name.find(kLayersPart);
  if (layers != std::string_view::npos) {
    std::string_view rest = name.substr(layers + kLayersPart.size());
    if (const auto number = take_number<std::int64_t>(rest, 10)) {
      layer = *number;
      take_words(rest, ".");
    }
    while (module < kLayerModules.size() && !rest.starts_with(kLayerModules[module])) ++module;
    place.is_known = place.is_known && module < kLayerModules.size();
    if (module < kLayerModules.size()) rest.remove_prefix(kLayerModules[module].size());
    while (parameter < kModuleParameters.size() && rest != kModuleParameters[parameter])
      ++parameter;
    place.is_known = place.is_known && parameter < kModuleParameters.size();
  }
  place.order = {static_cast<std::int64_t>(part), layer, static_cast<std::int64_t>(module), expert,
                 static_cast<std::int64_t>(parameter)};
  return place;
}

StackedAxes stacked_axes(std::string_view name) {
  constexpr std::string_view kDecoder = "decoder.layers.";
  const bool is_numbered =
      name.size() > kDecoder.size() && name[kDecoder.size()] >= '0' && name[kDecoder.size()] <= '9';
  return {name.starts_with(kDecoder) && !is_numbered,
          name.find(kStackedExperts) != std::string_view::npos};
}

}  // namespace reshardfs
