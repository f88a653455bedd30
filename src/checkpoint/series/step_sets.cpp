// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/step_sets.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/items/item_set.h"
#include "checkpoint/neighbours.h"
#include "checkpoint/ranks/source_pattern.h"
#include "checkpoint/recognition.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/source_links.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// Removes the first of the words with which `text` begins, and one separator behind it.
template <std::size_t size>
bool take_word(std::string_view& text, const std::array<std::string_view, size>& words) {
  for (const std::string_view word : words) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    if (!text.empty() && std::string_view("-_=").find(text.front()) != std::string_view::npos) {
      text.remove_prefix(1);
    }
    return true;
  }
  return false;
}

using Folders = std::map<std::string, fs::path, OlderStep>;
constexpr StepNames kFolderNames{step_of_folder};

/// Where a step's checkpoint is: verl and NeMo RL keep several models, and the one that is trained
/// has a directory of its own.
fs::path checkpoint_of(const fs::path& folder, const SourceTreePtr& tree) {
  for (const char* const trained : {"actor", "policy"}) {
    if (path_kind(folder / trained, tree) == PathKind::kDirectory) return folder / trained;
  }
  return folder;
}

/// None if the directory has files of ranks, or its names do not tell steps. Only directories of
/// this machine are looked into.
Folders find_folders(const fs::path& directory, const SourceTreePtr& tree) {
  Folders folders;
  if (is_url(directory)) return folders;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (!entry.is_directory || (entry.is_link && refuses_links(tree))) continue;
    if (auto step = step_of_folder(entry.name)) {
      folders.emplace(std::move(*step), checkpoint_of(directory / entry.name, tree));
    } else if (auto of_items = step_of_items(directory / entry.name, tree)) {
      // Its directories may have any names: of two with one number, none is the step.
      if (!folders.emplace(std::move(*of_items), directory / entry.name).second) return {};
    }
  }
  if (folders.empty() || find_known_pattern(directory, tree)) return {};
  const bool has_any = std::any_of(folders.begin(), folders.end(),
                                   [](const auto& folder) { return is_checkpoint(folder.second); });
  return has_any ? folders : Folders();
}

/// Whether a model lies beside the steps: trainers save the last one there, for those who load it.
/// One that is incomplete counts, too, so that no step is taken in its place.
bool has_own_model(const fs::path& directory, const SourceTreePtr& tree) {
  try {
    return find_whole_model(directory, tree).has_value();
  } catch (const Error&) {
    return true;
  }
}

/// Of a source that may be a file.
Folders folders_beside(const fs::path& source, const SourceTreePtr& tree) {
  return path_kind(source, tree) == PathKind::kDirectory ? find_folders(source, tree) : Folders();
}

/// With the tracker that verl keeps beside them, as Megatron-LM does, if there is one.
StepDirectories with_tracker(const fs::path& directory, Folders folders, const SourceTreePtr& tree,
                             bool needs_tracker) {
  StepDirectories found;
  found.root = directory;
  found.directories = std::move(folders);
  const fs::path tracker = directory / kFolderNames.tracker;
  if (path_kind(tracker, tree) == PathKind::kMissing) return found;
  if (is_link(tracker) && refuses_links(tree)) throw link_refused(tracker);
  take_tracker(kFolderNames, tree, needs_tracker, found);
  return found;
}

std::vector<StepInfo> describe(const fs::path& directory, const Folders& folders,
                               const SourceTreePtr& tree) {
  const StepDirectories found = with_tracker(directory, folders, tree, /*needs_tracker=*/false);
  std::vector<StepInfo> steps;
  for (const auto& [step, folder] : folders) {
    steps.push_back({step, {Rank()}, found.is_finished(step), {folder}});
  }
  return steps;
}

Error choose_other(const fs::path& directory, const Folders& folders, ErrorKind kind,
                   const std::string& what) {
  std::vector<std::string> steps;
  for (const auto& [step, folder] : folders) {
    if (is_checkpoint(folder)) steps.push_back(step);
  }
  return Error(kind, what + "; available: " + join_steps(steps))
      .in_file(directory.string())
      .hint("choose one with --step");
}

}  // namespace

std::optional<std::string> step_of_folder(std::string_view name) {
  constexpr std::array<std::string_view, 1> kCheckpoint{"checkpoint"};
  constexpr std::array<std::string_view, 1> kEpoch{"epoch"};
  constexpr std::array<std::string_view, 2> kStep{"global_step", "step"};
  bool known = take_word(name, kCheckpoint);
  std::string epoch;
  if (take_word(name, kEpoch)) {
    const auto number = take_number<std::int64_t>(name);
    if (!number) return std::nullopt;
    epoch = std::to_string(*number);
    if (name.empty()) return epoch;
    if (name.front() != '-' && name.front() != '_') return std::nullopt;
    name.remove_prefix(1);
    known = false;
  }
  known = take_word(name, kStep) || known;
  const auto step = known ? parse_number(name) : std::nullopt;
  if (!step) return std::nullopt;
  return (epoch.empty() ? "" : epoch + "_") + std::to_string(*step);
}

std::optional<Discovery> discover_step_sets(const fs::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree) {
  const Folders folders = find_folders(directory, tree);
  if (folders.empty()) return std::nullopt;
  if (options.step == kLatestStep && has_own_model(directory, tree)) return std::nullopt;
  if (options.step == kAllSteps) {
    throw choose_other(directory, folders, ErrorKind::kUsage, kAllStepsRefused);
  }
  const bool latest = options.step == kLatestStep;
  const StepDirectories found = with_tracker(directory, folders, tree, latest);
  const bool is_tracked = latest && found.tracked;
  const auto chosen = is_tracked ? folders.find(choose_step(found, options.step).step)
                      : latest   ? std::prev(folders.end())
                                 : folders.find(options.step);
  if (chosen == folders.end()) {
    throw choose_other(directory, folders, ErrorKind::kMissing,
                       "there is no directory of step '" + printable(options.step) + "'");
  }
  if (!is_checkpoint(chosen->second)) {
    throw choose_other(directory, folders, ErrorKind::kBadInput,
                       "step " + chosen->first + " has no checkpoint that can be read");
  }
  CheckpointOptions inner = options;
  inner.step = kLatestStep;
  inner.listed = recording(listed_once(chosen->second, {}).listed, inputs_of(options.listed));
  Discovery out = discover(chosen->second, inner);
  const bool is_folder = step_of_folder(chosen->second.filename().string()).has_value();
  if (!is_folder) note_neighbours_in(chosen->second.parent_path(), tree, out);
  out.step = chosen->first;
  out.steps.clear();
  note_tracker(found, out);
  note_other_steps(found, options.step, out);
  if (out.completeness.config.empty()) out.completeness.config = config_of(chosen->second, inner);
  return out;
}

std::optional<std::string> steps_beside_model(const fs::path& directory,
                                              const SourceTreePtr& tree) {
  const Folders folders = folders_beside(directory, tree);
  if (folders.empty()) return std::nullopt;
  std::vector<std::string> steps;
  for (const auto& [step, folder] : folders) steps.push_back(step);
  const fs::path last = folders.rbegin()->second.lexically_relative(directory);
  return "the steps in this directory are not read: choose one with --step: " + join_steps(steps) +
         "; the last is in '" + printable(last.string()) + "'";
}

std::vector<StepInfo> step_sets_beside_model(const fs::path& directory, const SourceTreePtr& tree) {
  return describe(directory, folders_beside(directory, tree), tree);
}

std::optional<std::vector<StepInfo>> find_step_sets(const fs::path& directory,
                                                    const SourceTreePtr& tree) {
  const Folders folders = find_folders(directory, tree);
  if (folders.empty() || has_own_model(directory, tree)) return std::nullopt;
  return describe(directory, folders, tree);
}

}  // namespace reshardfs
