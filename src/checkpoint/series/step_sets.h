// SPDX-License-Identifier: Apache-2.0
/// Directories with a checkpoint for each step, as trainers leave them: checkpoint-500/ of the
/// Trainer of transformers, step-10/ of torchtitan, epoch_0/ of torchtune, global_step_10/actor/ of
/// verl.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// The step in the name of a directory: "500" for "checkpoint-500" and "step500", "0_9" for
/// "epoch_0_step_9". nullopt if the name is not one of a step.
std::optional<std::string> step_of_folder(std::string_view name);

/// See SetFormat. No file names the last step: the one with the highest number is taken, and
/// refused if it has no checkpoint that can be read. A model beside the steps comes before them,
/// unless the options choose a step.
std::optional<Discovery> discover_step_sets(const std::filesystem::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_step_sets(const std::filesystem::path& directory,
                                                    const SourceTreePtr& tree);

/// A warning of the steps below a directory that is a model itself; nullopt if there are none.
std::optional<std::string> steps_beside_model(const std::filesystem::path& directory,
                                              const SourceTreePtr& tree);
/// These steps, ascending, for a mount of all steps, which finds out itself which of them are
/// whole.
std::vector<StepInfo> step_sets_beside_model(const std::filesystem::path& directory,
                                             const SourceTreePtr& tree);

}  // namespace reshardfs
