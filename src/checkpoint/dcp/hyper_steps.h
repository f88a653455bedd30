// SPDX-License-Identifier: Apache-2.0
/// Directories of hyper-parallel's Trainer: a checkpoint with a table for each step, beside a file
/// that names the last step saved. Source: mindspore-ai/hyper-parallel
/// hyper_parallel/.../components/checkpoint/dcp_checkpointer.py.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat. As the Trainer does, takes the step that the file names if it has a table, and
/// else the last one that has.
std::optional<Discovery> discover_hyper_steps(const std::filesystem::path& directory,
                                              const CheckpointOptions& options,
                                              const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_hyper_steps(const std::filesystem::path& directory,
                                                      const SourceTreePtr& tree);

}  // namespace reshardfs
