// SPDX-License-Identifier: Apache-2.0
/// PyTorch's distributed checkpoints (torch.distributed.checkpoint): a directory with a table,
/// .metadata, and files of archives in which the boxes of all tensors are.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/discovery.h"
#include "checkpoint/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat. Which rank has written a file does not matter: they are numbered in the order of
/// their names.
std::optional<Discovery> discover_dcp(const std::filesystem::path& directory,
                                      const CheckpointOptions& options, const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_dcp_steps(const std::filesystem::path& directory,
                                                    const SourceTreePtr& tree);

}  // namespace reshardfs
