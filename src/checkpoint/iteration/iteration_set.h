// SPDX-License-Identifier: Apache-2.0
/// MindSpore Transformers' Checkpoint 2.0: a directory for each step, in which all ranks' files and
/// a metadata.json are, and a tracker beside them that names the step which was saved last.
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
/// @throws Error kBadInput besides, if there are files of ranks in directories of their own, too:
///         which ones count?
std::optional<Discovery> discover_iterations(const std::filesystem::path& directory,
                                             const CheckpointOptions& options,
                                             const SourceTreePtr& tree);

/// A step is complete if it is not newer than the tracker's, and no file is missing whose number
/// lies below the count in the others' names.
std::optional<std::vector<StepInfo>> find_iteration_steps(const std::filesystem::path& directory,
                                                          const SourceTreePtr& tree);

}  // namespace reshardfs
