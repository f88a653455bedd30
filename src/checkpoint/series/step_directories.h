// SPDX-License-Identifier: Apache-2.0
/// Checkpoints with a directory for each step, beside a file that names the one that was saved
/// last: as MindSpore Transformers and Megatron write them.
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

/// Written after all else of a step.
inline constexpr std::string_view kIterationTracker = "latest_checkpointed_iteration.txt";

/// How one writer names its directories.
struct StepNames {
  /// The step of a directory by its name ("10"); nothing if it is no step's.
  std::optional<std::string> (*parse)(std::string_view name) = nullptr;
  /// A directory that belongs to no step, which the tracker may name; empty: there is none.
  std::string_view release{};
};

struct StepDirectories {
  std::filesystem::path root;
  std::map<std::string, std::filesystem::path, OlderStep> directories;  ///< by step
  std::optional<std::filesystem::path> release;                         ///< see StepNames
  /// What the tracker has; nothing: there is none, or it is wrong and does not matter.
  std::optional<std::string> tracked;
  std::int64_t tracked_ns = 0;  ///< when that was written, since the epoch
  bool tracks_release = false;
  std::vector<std::filesystem::path> links;  ///< symbolic ones among those

  /// Whether the step was saved before the one that the tracker names, or is that one.
  bool is_finished(const std::string& step) const;
};

/// Nothing if the directory has neither steps nor a tracker.
/// @param needs_tracker what is wrong with the tracker matters.
/// @throws Error kBadInput for such a tracker, or for a link, if `tree` refuses them; kIo.
std::optional<StepDirectories> list_steps(const std::filesystem::path& root, const StepNames& names,
                                          const SourceTreePtr& tree, bool needs_tracker);

struct ChosenStep {
  std::string step;  ///< empty: what belongs to none
  std::filesystem::path directory;
};

/// @param wanted see CheckpointOptions::step; also the name of what belongs to no step.
/// @throws Error kMissing with the steps that there are; kUsage for all of them.
ChosenStep choose_step(const StepDirectories& found, const std::string& wanted);

/// Notes the tracker as what was written after the files of out.step, if it was.
void note_tracker(const StepDirectories& found, Discovery& out);

/// Lists all steps, and notes which others there are, by out.step.
void note_other_steps(const StepDirectories& found, const std::string& wanted, Discovery& out);

/// The name of the directory itself, however it is written.
std::string directory_name(const std::filesystem::path& directory);

/// For a directory of one step, which is named as the source.
/// @param step empty: its name does not tell.
/// @throws Error kMissing or kUsage if that is not the one that is wanted.
void require_step(const std::filesystem::path& directory, const std::string& step,
                  const std::string& wanted);

}  // namespace reshardfs
