// SPDX-License-Identifier: Apache-2.0
/// Checkpoints of DeepSpeed's ZeRO, stages 1 to 3: every rank has a part of flat vectors, in which
/// the parameters lie in float32, and the same of the optimizer's moments. They are shown whole,
/// under the model's names; moments have the name of the state before it ("exp_avg.").
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat. The directory may be one step's, or the one above with the file `latest`.
std::optional<Discovery> discover_deepspeed(const std::filesystem::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_deepspeed_steps(const std::filesystem::path& directory,
                                                          const SourceTreePtr& tree);

}  // namespace reshardfs
