// SPDX-License-Identifier: Apache-2.0
/// Runs with DeepSpeed's own experts (deepspeed/runtime/engine.py, _save_moe_checkpoint). Each
/// expert of each layer has a file of its own, and `module` in mp_rank_00_model_states.pt has the
/// rest of the model: whole tensors, in the type of the training. The float32 and the states of the
/// optimizer are cut by expert parallelism, which no file states.
#pragma once

#include <filesystem>

#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/ranks/discovery.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// @param step with experts.
/// @throws Error kUnsupported with tensor parallelism, or with AutoEP; kMissing or kBadInput if
///         files are not those that the model file states.
Discovery read_experts(const std::filesystem::path& directory, const ZeroStep& step,
                       const SourceTreePtr& tree);

}  // namespace reshardfs
