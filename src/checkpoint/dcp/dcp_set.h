// SPDX-License-Identifier: Apache-2.0
/// Checkpoints that record the boxes of their tensors in a table, .metadata: those of PyTorch
/// (torch.distributed.checkpoint), of Megatron-Core (torch_dist), which may have a directory for
/// each step, and of hyper-parallel. A checkpoint that was saved without collectives has a table
/// for each rank. Sources: pytorch/pytorch torch/distributed/checkpoint/filesystem.py;
/// NVIDIA/Megatron-LM megatron/core/dist_checkpointing/serialization.py,
/// megatron/training/checkpointing.py; mindspore-ai/hyper-parallel core/checkpoint/.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat.
std::optional<Discovery> discover_dcp(const std::filesystem::path& directory,
                                      const CheckpointOptions& options, const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_dcp_steps(const std::filesystem::path& directory,
                                                    const SourceTreePtr& tree);

/// The same for a directory that contains one for each step: iter_0000010, or release.
std::optional<Discovery> discover_megatron(const std::filesystem::path& directory,
                                           const CheckpointOptions& options,
                                           const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_megatron_steps(const std::filesystem::path& directory,
                                                         const SourceTreePtr& tree);

/// The same for a directory that has one as accelerate and NeMo keep it: pytorch_model_fsdp_0,
/// weights.
std::optional<Discovery> discover_inner_dcp(const std::filesystem::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_inner_dcp_steps(const std::filesystem::path& directory,
                                                          const SourceTreePtr& tree);

}  // namespace reshardfs
