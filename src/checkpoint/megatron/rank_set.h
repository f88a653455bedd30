// SPDX-License-Identifier: Apache-2.0
/// Checkpoints of Megatron-LM in its format `torch`: every tensor-parallel, pipeline and expert
/// rank saves its part of the model, without stating where in the whole it belongs. It follows from
/// the names of the directories, the arguments of the training and the names of Megatron-Core's
/// modules.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat. The directory may be one iteration's, or the one above with the file that names
/// the last one.
std::optional<Discovery> discover_megatron_ranks(const std::filesystem::path& directory,
                                                 const CheckpointOptions& options,
                                                 const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_megatron_rank_steps(
    const std::filesystem::path& directory, const SourceTreePtr& tree);

}  // namespace reshardfs
