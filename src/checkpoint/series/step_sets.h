// SPDX-License-Identifier: Apache-2.0
/// Directories with a checkpoint for each step, as trainers leave them: checkpoint-500/ of the
/// Trainer of transformers, step-10/ of torchtitan, epoch_0/ of torchtune, global_step_10/actor/ of
/// verl.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat. No file names the last step: the one with the highest number is taken, and
/// refused if it has no checkpoint that can be read. A model beside the steps comes before them,
/// unless the options choose a step.
std::optional<Discovery> discover_step_sets(const std::filesystem::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_step_sets(const std::filesystem::path& directory,
                                                    const SourceTreePtr& tree);

/// The steps below a directory that is a checkpoint itself, ascending.
std::vector<std::string> steps_beside_model(const std::filesystem::path& directory,
                                            const SourceTreePtr& tree);
/// The same, with whether each has a checkpoint, for a mount of all steps.
std::vector<StepInfo> step_sets_beside_model(const std::filesystem::path& directory,
                                             const SourceTreePtr& tree);

}  // namespace reshardfs
