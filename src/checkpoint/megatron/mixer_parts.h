// SPDX-License-Identifier: Apache-2.0
/// The parts of which tensors of a Mamba-2 layer or a gated delta net consist. Each rank has its
/// share of all parts in one tensor; in torch_dist checkpoints, each part has a name of its own.
/// Source: MambaMixer in megatron/core/ssm/mamba_mixer.py and GatedDeltaNet in
/// megatron/core/ssm/gated_delta_net.py, 0.19.2 and 0.20.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/megatron/rank_file.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// Puts the parts in the place of such tensors: "mixer.in_proj.weight.z" and so on.
/// @param ranks that share the tensors.
/// @return why tensors are left as they are, by their names: words that complete "it cannot be put
///         together: ...".
std::map<std::string, std::string> split_into_parts(const MegatronArgs& args, std::int64_t ranks,
                                                    std::vector<TorchTensor>& tensors);

}  // namespace reshardfs
