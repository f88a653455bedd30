// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reshardfs {

/// What the name of a weight in a torch_dist checkpoint of Megatron-Core tells
/// (NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py, sharded_state_dict;
/// megatron/core/transformer/moe/experts.py; megatron/core/transformer/multi_token_prediction.py).
struct CoreName {
  enum class Layers : std::uint8_t {
    kNone,      ///< it is of no layer of the decoder
    kStacked,   ///< of all: the layer is the first axis
    kNumbered,  ///< of one, whose number the name contains
  };
  Layers layers = Layers::kNone;
  /// Of all experts: the expert is the first axis behind that of the layers.
  bool has_experts = false;
  /// The module whose weight it is: all but the last word, and without "weight" before the names of
  /// parts (mixer.in_proj.weight.z). Empty for the embedding and the output layer, which are
  /// outside of the decoder.
  std::string module{};
  /// Whether the module is one of Transformer Engine, which has a state.
  bool has_state = false;

  std::size_t leading_axes() const noexcept {
    return (layers == Layers::kStacked ? 1U : 0U) + (has_experts ? 1U : 0U);
  }
};

CoreName parse_core_name(std::string_view name);

}  // namespace reshardfs
