// SPDX-License-Identifier: Apache-2.0
/// Symbolic links among the files of a source. Whoever made the source chose where they lead.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

struct CheckpointOptions;

/// What the files of a source are opened with: nullptr, unless its links are refused, or a server
/// lists it.
/// @param source a directory.
/// @throws what the constructor of LinklessTree throws.
SourceTreePtr source_tree(const std::filesystem::path& source, const CheckpointOptions& options);

/// The same options, such that what a server lists of the source is kept: for all that is done to
/// find and open one set.
CheckpointOptions listed_once(const std::filesystem::path& source,
                              const CheckpointOptions& options);

/// A line about those that lead to something outside of `root`; nothing if none does.
/// @param links each exists or leads nowhere; the latter are passed over.
std::optional<std::string> links_outside(const std::filesystem::path& root,
                                         const std::vector<std::filesystem::path>& links);

}  // namespace reshardfs
