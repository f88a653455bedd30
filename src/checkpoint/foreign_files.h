// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "storage/source_tree.h"

namespace reshardfs {

/// Of a directory in which no checkpoint was found: says what of other programs is in it, if that
/// holds a model all the same, and what to do.
/// @throws Error kUnsupported if there is any.
void refuse_foreign_files(const std::filesystem::path& root, const SourceTreePtr& tree);

}  // namespace reshardfs
