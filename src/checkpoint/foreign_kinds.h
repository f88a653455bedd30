// SPDX-License-Identifier: Apache-2.0
/// Directories of other programs that are known, and not read. To add a kind, add a line to the
/// table in foreign_kinds.cpp, and one to docs/directories.md.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/local/directory.h"

namespace reshardfs {

struct ForeignKind {
  /// Names of entries, as shell patterns, that a directory of this kind has, all of them; the
  /// second may be empty. That of a directory ends with '/'.
  std::array<std::string_view, 2> signs;
  std::string_view what;    ///< completes "is ..."
  std::string_view advice;  ///< the command or the function that leads to a checkpoint to read
};

std::span<const ForeignKind> foreign_kinds();

struct ForeignDirectory {
  const ForeignKind* kind;
  std::string sign;  ///< the entry that tells it
};

/// The first kind whose signs a directory has; kind is nullptr if it has none.
ForeignDirectory foreign_directory(const std::vector<DirectoryEntry>& entries);

}  // namespace reshardfs
