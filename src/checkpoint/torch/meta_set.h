// SPDX-License-Identifier: Apache-2.0
/// Meta's releases of Llama: consolidated.00.pth, consolidated.01.pth, ... and params.json. Each
/// file is a tensor-parallel rank; see meta_layout.h.
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

/// See SetFormat.
std::optional<Discovery> discover_meta(const std::filesystem::path& directory,
                                       const CheckpointOptions& options, const SourceTreePtr& tree);
std::optional<std::vector<StepInfo>> find_meta_steps(const std::filesystem::path& directory,
                                                     const SourceTreePtr& tree);

/// The params.json of a release of Meta; empty if the directory is none, or has no such file.
std::filesystem::path meta_params(const std::filesystem::path& directory);

/// That a file of a release, by its name, is a part of the model; empty if it is no such name, or
/// params.json beside it proves that the release is one file.
std::string meta_part_words(const std::filesystem::path& file);

}  // namespace reshardfs
