// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/target/target_table.h"
#include "view/dcp/dcp_files.h"

namespace reshardfs {

/// The extra states that modules of Transformer Engine keep beside their weights: an object for
/// each layer and each expert. Megatron-Core asks for those of its modules, and by default loads
/// nothing if one is missing (megatron/core/dist_checkpointing/validation.py,
/// assume_ok_unexpected). They hold scales of 8-bit training, which a model that starts has none
/// of: each is the list [None], at which Transformer Engine does nothing in all its releases
/// (transformer_engine/pytorch/module/base.py and ops/op.py, set_extra_state).
///
/// Which modules have one depends on its release and on the model's specification. All that have a
/// weight get one here, and the core of each attention; Megatron-Core ignores those that it does
/// not ask for.
/// @param weights with names of Megatron-Core.
/// @throws Error kBadInput if weights disagree about the number of layers or of experts, or have
/// too
///         few dimensions or no elements; kUnsupported for more than a million layers and experts.
std::vector<PassedObject> extra_states(const std::vector<const TargetParameter*>& weights);

}  // namespace reshardfs
