// SPDX-License-Identifier: Apache-2.0
/// Adapters that MindSpore Transformers saves as a Checkpoint 2.0: its files have the parameters of
/// LoRA alone.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "storage/source_tree.h"

namespace reshardfs {

/// Beside metadata.json, and beside the directories of steps.
inline constexpr std::string_view kIterationAdapter = "mindformers_adapter_config.json";

/// "a LoRA adapter of '/models/qwen3'", or of a model that the file does not name.
/// @throws Error kIo, kBadInput with the file.
std::string adapter_of_iteration(const std::filesystem::path& file, const SourceTreePtr& tree);

}  // namespace reshardfs
