// SPDX-License-Identifier: Apache-2.0
/// Models that torch.distributed.checkpoint saved to safetensors files in shards: each rank writes
/// its own parts (HuggingFaceStorageWriter with save_distributed; pytorch/pytorch
/// torch/distributed/checkpoint/hf_storage.py, _hf_utils.py).
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat. Decided by the names of the files; if they do not decide, the header of one file
/// is read. A directory with a model in whole tensors is never a shard set.
std::optional<Discovery> discover_shards(const std::filesystem::path& directory,
                                         const CheckpointOptions& options,
                                         const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_shard_steps(const std::filesystem::path& directory,
                                                      const SourceTreePtr& tree);

}  // namespace reshardfs
