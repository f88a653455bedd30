// SPDX-License-Identifier: Apache-2.0
/// Universal checkpoints of DeepSpeed: zero/<parameter>/fp32.pt and a file for each state of the
/// optimizer, each with the whole tensor. Names are those of zero_set.h.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// See SetFormat. The directory may be one checkpoint, or the one above with `latest_universal`.
std::optional<Discovery> discover_universal(const std::filesystem::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_universal_steps(const std::filesystem::path& directory,
                                                          const SourceTreePtr& tree);

}  // namespace reshardfs
