// SPDX-License-Identifier: Apache-2.0
/// The files that the ranks of a job save with torch.save, each with its parts of the tensors as
/// DTensors: model_world_size_<W>_rank_<R>.pt, as verl and SkyRL write them for FSDP.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat.
std::optional<Discovery> discover_fsdp(const std::filesystem::path& directory,
                                       const CheckpointOptions& options, const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_fsdp_steps(const std::filesystem::path& directory,
                                                     const SourceTreePtr& tree);

/// How many ranks saved a file of this name; nullopt if it is no such name.
std::optional<std::int64_t> fsdp_world_size(std::string_view name);

}  // namespace reshardfs
