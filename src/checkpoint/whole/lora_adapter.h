// SPDX-License-Identifier: Apache-2.0
/// LoRA adapters as the package peft saves them: adapter_model.safetensors, with a pair of small
/// matrices for each weight that it changes, and adapter_config.json.
#pragma once

#include <string>
#include <string_view>

namespace reshardfs {

class CheckpointSet;

/// Whether a file has the name that peft gives to an adapter.
bool is_adapter_file(std::string_view file_name) noexcept;

/// Whether a tensor has the name of an adapter's:
/// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
bool is_adapter_name(std::string_view name) noexcept;

/// "the tensors are of a LoRA adapter of ORG/NAME, which no map or layout knows: ...", and what to
/// do. Empty if they are no adapter's.
std::string adapter_words(const CheckpointSet& set);

}  // namespace reshardfs
