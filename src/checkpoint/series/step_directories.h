// SPDX-License-Identifier: Apache-2.0
/// Checkpoints with a directory for each step, and a file beside them (the tracker) that names the
/// last step saved, as MindSpore Transformers and Megatron write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/step.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Written after all other files of a step.
inline constexpr std::string_view kIterationTracker = "latest_checkpointed_iteration.txt";

/// How one writer names its directories.
struct StepNames {
  /// The step in a directory's name ("10"); nullopt if the directory is not one of a step.
  std::optional<std::string> (*parse)(std::string_view name) = nullptr;
  /// A directory that belongs to no step, which the tracker may name; empty: there is none.
  std::string_view release{};
  /// The file that names the last step, by its number or by its directory's name.
  std::string_view tracker = kIterationTracker;
};

struct StepDirectories {
  std::filesystem::path root;
  std::string tracker;                                                  ///< the name of the file
  std::map<std::string, std::filesystem::path, OlderStep> directories;  ///< by step
  std::optional<std::filesystem::path> release;                         ///< see StepNames
  /// The tracker's contents; nullopt: there is no tracker, or it is invalid and not needed.
  std::optional<std::string> tracked;
  std::int64_t tracked_ns = 0;  ///< its modification time, since the epoch
  bool tracks_release = false;
  std::vector<std::filesystem::path> links;  ///< the directories that are symbolic links

  /// Whether the step was saved before the one that the tracker names, or is that one.
  bool is_finished(const std::string& step) const;
};

/// nullopt if the directory has neither steps nor a tracker.
/// @param needs_tracker whether an invalid tracker is an error.
/// @throws Error kBadInput for an invalid tracker, or for a link if `tree` refuses them; kIo.
std::optional<StepDirectories> list_steps(const std::filesystem::path& root, const StepNames& names,
                                          const SourceTreePtr& tree, bool needs_tracker);

/// Reads the tracker of `out.root`, which exists.
/// @throws Error as list_steps() for an invalid tracker; kIo.
void take_tracker(const StepNames& names, const SourceTreePtr& tree, bool needs_tracker,
                  StepDirectories& out);

/// The directory that the tracker names, if its name is that of no step: programs may choose it.
std::optional<std::filesystem::path> tracked_directory(const std::filesystem::path& root,
                                                       const StepNames& names,
                                                       const SourceTreePtr& tree);

struct ChosenStep {
  std::string step;  ///< empty: the directory that belongs to no step
  std::filesystem::path directory;
};

/// @param wanted see CheckpointOptions::step; may also name a directory that belongs to no step.
/// @throws Error kMissing with the existing steps; kUsage for kAllSteps.
ChosenStep choose_step(const StepDirectories& found, const std::string& wanted);

/// If the tracker was written after the files of out.step, adds it to out.written_last.
void note_tracker(const StepDirectories& found, Discovery& out);

/// Lists all steps in `out`, and adds notes about steps other than out.step.
void note_other_steps(const StepDirectories& found, const std::string& wanted, Discovery& out);

/// The name of the directory, also for paths such as "a/." and "a/".
std::string directory_name(const std::filesystem::path& directory);

/// Checks --step for a source that is the directory of one step.
/// @param step empty: the directory's name does not state it.
/// @throws Error kMissing or kUsage if another step is wanted.
void require_step(const std::filesystem::path& directory, const std::string& step,
                  const std::string& wanted);

}  // namespace reshardfs
