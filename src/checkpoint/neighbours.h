// SPDX-License-Identifier: Apache-2.0
/// What lies in a set's directory and is not read: another set, the optimizer's states, an adapter,
/// a save that was not finished. It is named, so that no part passes for all that was saved.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/ranks/discovery.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// What the caller knows of a set that no SetFormat describes.
struct NeighbourHints {
  bool is_whole = false;             ///< a whole model, and no file is of a rank
  std::vector<std::string> named{};  ///< files and indexes that other warnings name
};

/// Adds a line of Completeness::doubts for each kind of neighbours in the directory of a set, and
/// in the directory of its step. Looks at names and at the first bytes of files; what cannot be
/// listed is left out.
/// @param source the directory that was named; nothing is added for a file.
/// @param tree of the source, if symbolic links are refused.
/// @param out with the files of the set.
void note_neighbours(const std::filesystem::path& source, const CheckpointOptions& options,
                     const SourceTreePtr& tree, const NeighbourHints& hints, Discovery& out);

/// The same for one directory, which has the files of `out` or a directory above them.
void note_neighbours_in(const std::filesystem::path& directory, const SourceTreePtr& tree,
                        Discovery& out);

}  // namespace reshardfs
