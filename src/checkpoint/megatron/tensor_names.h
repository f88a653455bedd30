// SPDX-License-Identifier: Apache-2.0
/// The names of tensors in a rank's file of Megatron-LM, and those that Megatron-Core gives to the
/// same tensors of the whole model: sharded_state_dict() in transformer_block.py and
/// moe/experts.py of megatron/core/transformer, August 2026.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// "model.a.b", or "model1.a.b" of the second virtual stage.
struct ModelName {
  std::size_t chunk = 0;  ///< of the stage's parts of the model
  bool numbered = false;  ///< whether the key has a number
  std::string local{};    ///< "a.b"
};

/// nullopt if the name is not below a key of the model.
std::optional<ModelName> parse_model_name(std::string_view name);

/// What the state of Transformer Engine's modules is called: it is no weight.
bool is_extra_state(std::string_view name);

/// The number of "decoder.layers.7.mlp.router.weight"; nullopt for other names.
std::optional<std::int64_t> decoder_layer(std::string_view name);
/// The same name with a higher number.
/// @param name of which decoder_layer() has a value.
std::string with_layer(std::string_view name, std::int64_t layer);

/// "mtp.layers." of a name with a layer outside of the decoder, which stages may count anew; empty:
/// it has none.
std::string other_layers(std::string_view name);

/// One expert's tensor.
struct ExpertName {
  std::string stacked{};    ///< "...mlp.experts.experts.linear_fc1.weight", of all experts
  std::int64_t number = 0;  ///< of the expert, among those of the rank
};

/// For "...mlp.experts.local_experts.3.linear_fc1.weight" and "...mlp.experts.linear_fc1.weight3".
std::optional<ExpertName> parse_expert(std::string_view name);

}  // namespace reshardfs
