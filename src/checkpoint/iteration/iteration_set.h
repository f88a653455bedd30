// SPDX-License-Identifier: Apache-2.0
/// MindSpore Transformers' Checkpoint 2.0: a directory for each step with all ranks' files and a
/// metadata.json, and a tracker beside them that names the last step saved.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// @param directory of all steps, or of one. See SetFormat.
/// @throws Error as SetFormat says; also kBadInput if ranks have directories of their own, too,
///         because it is ambiguous which files count.
std::optional<Discovery> discover_iterations(const std::filesystem::path& directory,
                                             const CheckpointOptions& options,
                                             const SourceTreePtr& tree);

/// A step is complete if it is not newer than the tracker's step, and no file is missing according
/// to the count in the file names.
std::optional<std::vector<StepInfo>> find_iteration_steps(const std::filesystem::path& directory,
                                                          const SourceTreePtr& tree);

}  // namespace reshardfs
