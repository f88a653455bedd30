// SPDX-License-Identifier: Apache-2.0
/// Sets that record their layouts themselves. To add a kind, write a file here with a catalogue and
/// these two functions, and add a line to set_format.cpp and to docs/directories.md. What is known
/// and not read is in foreign_files.h.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "storage/source_tree.h"

namespace reshardfs {

struct SetFormat {
  /// The files of the step that the options choose, and the catalogue. nullopt if the directory is
  /// not a set of this kind.
  /// @param tree of the directory, if symbolic links are refused.
  /// @throws Error as CheckpointSet::open() does.
  std::optional<Discovery> (*discover)(const std::filesystem::path& directory,
                                       const CheckpointOptions& options, const SourceTreePtr& tree);
  /// The result of find_steps(), from names only; nullopt as above.
  std::optional<std::vector<StepInfo>> (*find_steps)(const std::filesystem::path& directory,
                                                     const SourceTreePtr& tree);
  std::string_view kind;   ///< for programs, as in `inspect --json`
  std::string_view words;  ///< for people
  /// What such a directory has, as in docs/directories.md.
  std::string_view signs;
  /// Whether --state-key selects in it. If not, it has the model's own names alone.
  bool takes_state_key = true;
  /// Names of its files that no index or table lists, as shell patterns; see neighbours.h.
  std::array<std::string_view, 2> own{};
};

std::span<const SetFormat> set_formats();

/// The error for --step with a set that is a single checkpoint.
Error no_steps(const std::filesystem::path& directory);

/// The result of the first kind that recognizes the source. nullopt if none does, or if the user
/// gives a pattern for the ranks' files.
/// @throws Error as CheckpointSet::open() does.
std::optional<Discovery> discover_described_set(const std::filesystem::path& source,
                                                const CheckpointOptions& options);
std::optional<std::vector<StepInfo>> find_described_steps(const std::filesystem::path& source,
                                                          const CheckpointOptions& options);

}  // namespace reshardfs
