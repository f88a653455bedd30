// SPDX-License-Identifier: Apache-2.0
/// Symbolic links among the files of a source. The author of the source, who need not be the user,
/// chose their targets.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

struct CheckpointOptions;

/// The SourceTree with which the files of a source are opened; nullptr unless links are refused,
/// the source is on a server, or CheckpointOptions::listed is such a tree or records what is read.
/// @param source a directory.
/// @throws errors of the constructor of LinklessTree.
SourceTreePtr source_tree(const std::filesystem::path& source, const CheckpointOptions& options);

/// The same options with a cache of the server's lists, for everything that is done to find and
/// open one set.
CheckpointOptions listed_once(const std::filesystem::path& source,
                              const CheckpointOptions& options);

/// A line about the links that lead outside of `root`; nullopt if none does. Those of a snapshot in
/// a cache of Hugging Face's hub may lead to the cache's blobs.
/// @param links symbolic links; broken ones are ignored.
std::optional<std::string> links_outside(const std::filesystem::path& root,
                                         const std::vector<std::filesystem::path>& links);

}  // namespace reshardfs
