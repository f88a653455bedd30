// SPDX-License-Identifier: Apache-2.0
/// What a directory will be read as when an export has written its files.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/virtual_file.h"

#include "export/manifest.h"
#include "export/manifest_text.h"
#include "export/target.h"

namespace reshardfs {

/// The files of an export in a directory. Paths are relative to it.
struct ComingFiles {
  std::map<std::string, const VirtualFile*> written{};
  /// Of the same conversion, and there already.
  std::set<std::string> known{};
  /// Of other exports, which will be gone.
  std::set<std::string> removed{};
};

/// Looks at the directory and at those in it that have views.
/// @throws Error kUsage that names the files because of which a directory would be read as
///         something else than what the export writes there, or could not be read.
void require_read_back(const std::filesystem::path& directory, const ComingFiles& coming);

/// For a single file.
/// @param source may be beside it.
/// @return a warning that names another file there, or a checkpoint in subdirectories, as which the
///         directory is read.
/// @throws Error kUsage that names the files of a set beside it as which the directory would be
///         read.
std::optional<std::string> require_not_hidden(const std::filesystem::path& path,
                                              const VirtualFile& file,
                                              const std::filesystem::path& source);

/// What those manifests in a target list whose headers are accepted.
/// @throws Error of Target::read().
Manifest::Entries listed_by_manifests(const Target& target, const IsSameHeader& is_same);

}  // namespace reshardfs
