// SPDX-License-Identifier: Apache-2.0
/// Sets that record their layouts themselves. To add a kind: a file here with a catalogue and these
/// two functions, and a line in set_format.cpp.
#pragma once

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
  /// The files of the step that the options ask for, and the catalogue. Nothing if the directory is
  /// no set of this kind.
  /// @param tree of the directory, if symbolic links are refused.
  /// @throws Error as CheckpointSet::open() does.
  std::optional<Discovery> (*discover)(const std::filesystem::path& directory,
                                       const CheckpointOptions& options, const SourceTreePtr& tree);
  /// What find_steps() gives, from names alone. Nothing as above.
  std::optional<std::vector<StepInfo>> (*find_steps)(const std::filesystem::path& directory,
                                                     const SourceTreePtr& tree);
  std::string_view kind;   ///< for programs, as `inspect --json` has it
  std::string_view words;  ///< for people
};

std::span<const SetFormat> set_formats();

/// Where --step names one of a set that is one checkpoint.
Error no_steps(const std::filesystem::path& directory);

/// What the first kind that knows the source gives. Nothing if it is none of them, or if the user
/// says where the ranks' files are.
/// @throws Error as CheckpointSet::open() does.
std::optional<Discovery> discover_described_set(const std::filesystem::path& source,
                                                const CheckpointOptions& options);
/// The kind that knows the source, by names alone; nullptr as above.
const SetFormat* described_format(const std::filesystem::path& source,
                                  const CheckpointOptions& options);
std::optional<std::vector<StepInfo>> find_described_steps(const std::filesystem::path& source,
                                                          const CheckpointOptions& options);

}  // namespace reshardfs
