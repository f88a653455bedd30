// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/ranks/rank_files.h"
#include "checkpoint/whole/name_map_directory.h"

namespace reshardfs {

/// The files that were found below a source directory, and how.
struct SourceFiles {
  std::string pattern;  ///< empty: the source is one file
  RankFiles found;
  std::vector<std::string> notes;
  /// Set if the source is a whole model in several files; they are in `found` as parts of rank 0.
  std::optional<NameMapDirectory> name_map;
  /// Whether it is a whole model in several files that count each other, without an index.
  bool is_whole = false;
  std::string series{};  ///< the chosen series; see series.h
  std::vector<std::string> warnings{};
};

/// The files that `wanted` finds; without one, the known patterns are tried in order, then a name
/// map (see name_map_directory.h), then a single safetensors file, then the steps of one process.
/// @param tree of the root, if symbolic links are refused.
/// @throws Error kMissing if no file is found; kBadInput if there are files of two formats, or for
///         a link if they are refused.
SourceFiles find_by_pattern(const std::filesystem::path& root, const std::string& wanted,
                            const SourceTreePtr& tree);

/// The patterns of ranks' files that are tried, in this order, without the extension of a format.
std::span<const std::string_view> known_patterns();

/// The files of the first known pattern that matches any file; nullopt if none does.
/// @throws Error as find_by_pattern().
std::optional<SourceFiles> find_known_pattern(const std::filesystem::path& root,
                                              const SourceTreePtr& tree);

/// A model of whole tensors directly in the directory, in one file or in several that an index or
/// their names count; nullopt if there is none.
/// @throws Error as find_by_pattern().
std::optional<SourceFiles> find_whole_model(const std::filesystem::path& root,
                                            const SourceTreePtr& tree);

SourceFiles take_one_file(const std::filesystem::path& path, const std::string& wanted);

}  // namespace reshardfs
