// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/local/directory.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Directories of another program that are known, and not read. To add a kind, add a line to the
/// table in foreign_files.cpp, and one to docs/directories.md.
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

/// For a directory without a checkpoint: if it is one of foreign_kinds(), reports which, and what
/// to do.
/// @throws Error kUnsupported if it is.
void refuse_foreign_directory(const std::filesystem::path& root, const SourceTreePtr& tree);

/// The same, if it contains a model in a file of another program.
/// @throws Error kUnsupported if it does.
void refuse_foreign_files(const std::filesystem::path& root, const SourceTreePtr& tree);

/// The same, if one of its directories is one of foreign_kinds(), as with a run that saves steps.
/// @throws Error kUnsupported if one is.
void refuse_foreign_below(const std::filesystem::path& root, const SourceTreePtr& tree);

/// Names the models of a pipeline of diffusers.
/// @throws Error kMissing if it is one.
void refuse_pipeline(const std::filesystem::path& root, const SourceTreePtr& tree);

}  // namespace reshardfs
