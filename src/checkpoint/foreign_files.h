// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "storage/source_tree.h"

namespace reshardfs {

/// For a directory without a checkpoint: if it contains a model in a form of other programs,
/// reports which, and what to do.
/// @throws Error kUnsupported if it does.
void refuse_foreign_files(const std::filesystem::path& root, const SourceTreePtr& tree);

}  // namespace reshardfs
