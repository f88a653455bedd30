// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "storage/source_tree.h"

namespace reshardfs {

/// For a directory without a checkpoint: if it is one of foreign_kinds(), reports which, and what
/// to do.
/// @throws Error kUnsupported if it is.
void refuse_foreign_directory(const std::filesystem::path& root, const SourceTreePtr& tree);

/// The same, if it contains a model in a file of another program.
/// @throws Error kUnsupported if it does.
void refuse_foreign_files(const std::filesystem::path& root, const SourceTreePtr& tree);

/// The same, if one of its directories is one of foreign_kinds(), as with a run that saves steps.
/// @throws Error kUnsupported if one is.
void refuse_foreign_below(const std::filesystem::path& root, const SourceTreePtr& tree);

/// Names the models of a pipeline of diffusers.
/// @throws Error kMissing if it is one.
void refuse_pipeline(const std::filesystem::path& root, const SourceTreePtr& tree);

}  // namespace reshardfs
