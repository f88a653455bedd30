// SPDX-License-Identifier: Apache-2.0
/// Recognizes checkpoints, for messages about paths that the user has confused. It checks only the
/// names of files and their first bytes, so a checkpoint may still be damaged.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

/// Whether a path is a file that begins like a checkpoint, or a directory that contains a source's
/// files, and not only files without weights (see side_files.h). False if it cannot be read.
bool is_checkpoint(const std::filesystem::path& path) noexcept;

/// Whether the name ends as those of a format do.
bool has_checkpoint_name(const std::filesystem::path& path);

/// The names of checkpoint files directly in a directory, ascending. Returns at most `most`,
/// because it opens each file.
std::vector<std::string> checkpoint_files_in(const std::filesystem::path& directory,
                                             const SourceTreePtr& tree, std::size_t most);

/// The names of the subdirectories, the highest number first ("step-20" comes before "step-3"): a
/// few hundred at most, and no links.
/// @throws Error kIo if the directory cannot be listed.
std::vector<std::string> directories_by_number(const std::filesystem::path& directory,
                                               const SourceTreePtr& tree);

/// A subdirectory that is a set which records its layouts: the one with the highest number, of
/// directories_by_number().
std::optional<std::filesystem::path> described_set_in(const std::filesystem::path& directory,
                                                      const SourceTreePtr& tree);

}  // namespace reshardfs
