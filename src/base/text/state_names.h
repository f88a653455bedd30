// SPDX-License-Identifier: Apache-2.0
/// What names tell of the parameters that training keeps beside a model's weights.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace reshardfs {

/// The parameter that an optimizer state belongs to: "w" for "adam_m.w", as MindSpore names it.
/// Other names as they are.
std::string weight_name_of(const std::string& name);

/// Whether it is no weight, but a state of an optimizer, a scheduler or the training loop: as
/// MindSpore names them (in front of the weight's name, or "global_step"), as
/// torch.distributed.checkpoint does ("optim.state.<weight>.exp_avg", pytorch/pytorch
/// torch/distributed/checkpoint/state_dict.py), or Megatron-Core
/// ("optimizer.state.exp_avg.<weight>", NVIDIA/Megatron-LM
/// megatron/core/optimizer/distrib_optimizer.py).
/// @param prefixes of more states than MindSpore's own.
bool is_training_state(const std::string& name, const std::vector<std::string>& prefixes = {});

/// The names without the optimizer states of others among them: what to name in a message.
std::vector<std::string> without_states(const std::set<std::string>& names);

}  // namespace reshardfs
