// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/target/target_table.h"

namespace reshardfs {

/// The bytes of a safetensors file with the scales that vLLM's attention keeps beside the weights:
/// four for each layer, each the scalar 1.0 in float32. Its loader misses them where they are not
/// in the files; they matter for an 8-bit cache of keys and values alone, and have this value where
/// a checkpoint has none (vllm-project/vllm vllm/model_executor/layers/attention/attention.py,
/// set_default_quant_scales). Empty if no weight is of an attention.
/// @param weights with the names of vLLM's modules.
/// @throws Error as make_header().
std::string attention_scales(const std::vector<const TargetParameter*>& weights,
                             std::uint64_t align);

}  // namespace reshardfs
