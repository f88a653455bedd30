// SPDX-License-Identifier: Apache-2.0
/// Whether a path is a checkpoint, for messages about paths that were named in the wrong place. By
/// the names of files and their first bytes: what is one may be damaged all the same.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

/// Whether it is a file that begins like a checkpoint's, or a directory in which a source's files
/// are found. False if it cannot be read.
bool is_checkpoint(const std::filesystem::path& path) noexcept;

/// The names of checkpoint files directly in a directory, ascending: at most `most`, as each is
/// opened.
std::vector<std::string> checkpoint_files_in(const std::filesystem::path& directory,
                                             const SourceTreePtr& tree, std::size_t most);

/// Of the directories in `directory`, one that is a set which records its layouts: the last by its
/// number ("step-20" comes after "step-3"). Looks into a few hundred at most, and into no link.
std::optional<std::filesystem::path> described_set_in(const std::filesystem::path& directory,
                                                      const SourceTreePtr& tree);

}  // namespace reshardfs
