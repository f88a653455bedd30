// SPDX-License-Identifier: Apache-2.0
/// What names of training states mean, whichever program gave them.
#pragma once

#include <optional>
#include <string>

namespace reshardfs {

struct StateName {
  std::string weight;
  /// As torch.optim calls it, "exp_avg"; empty: the weight itself, in float32, as training with
  /// mixed precision keeps it.
  std::string state;
};

/// The forms: MindSpore's Adam ("adam_m.W", "moment1.W"); DeepSpeed, and maps to Hugging Face's
/// names ("exp_avg.W"); Megatron-Core's distributed optimizer ("optimizer.state.exp_avg.W",
/// NVIDIA/Megatron-LM megatron/core/optimizer/distrib_optimizer.py); PyTorch and hyper-parallel
/// ("optimizer.state.W.exp_avg").
/// @param is_mapped whether a model map says that it is a state.
/// @return nothing for what is none of these. It is not known whether there is such a weight.
std::optional<StateName> parse_state_name(const std::string& name, bool is_mapped);

}  // namespace reshardfs
