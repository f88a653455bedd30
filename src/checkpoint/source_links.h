// SPDX-License-Identifier: Apache-2.0
/// Symbolic links among the files of a source. Whoever made the source chose where they lead.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/linkless_tree.h"

namespace reshardfs {

/// What the files of a source are opened with: nullptr, unless its links are refused.
/// @param source a directory.
/// @throws what the constructor of LinklessTree throws.
LinklessTreePtr source_tree(const std::filesystem::path& source, bool no_symlinks);

/// A line about those that lead to something outside of `root`; nothing if none does.
/// @param links each exists or leads nowhere; the latter are passed over.
std::optional<std::string> links_outside(const std::filesystem::path& root,
                                         const std::vector<std::filesystem::path>& links);

}  // namespace reshardfs
