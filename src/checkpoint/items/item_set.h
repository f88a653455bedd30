// SPDX-License-Identifier: Apache-2.0
/// Checkpoints of torch_checkpointing: a file of each rank for each item, such as model and
/// optimizer, with parts of the tensors, and a table metadata.pkl that states where these are. See
/// item_table.h for the source.
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

/// See SetFormat. Decided by the table; without one, by the names of files and what the first ones
/// have.
std::optional<Discovery> discover_items(const std::filesystem::path& directory,
                                        const CheckpointOptions& options,
                                        const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_item_steps(const std::filesystem::path& directory,
                                                     const SourceTreePtr& tree);

/// Whether the directory has a save that has not ended, by its name: it is never read.
bool is_unfinished_item_set(const std::filesystem::path& directory, const SourceTreePtr& tree);

/// The step in the name of a directory that such a checkpoint is in, which may have any name: the
/// number at its end, "300" for "run-300". nullopt: there is none, or the save has not ended, or
/// there is no such checkpoint.
std::optional<std::string> step_of_items(const std::filesystem::path& directory,
                                         const SourceTreePtr& tree);

}  // namespace reshardfs
