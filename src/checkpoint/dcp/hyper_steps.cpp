// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/hyper_steps.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/dcp/dcp_set.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/source_links.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTableEnd = ".metadata";

std::optional<std::string> parse_trainer_step(std::string_view name) {
  constexpr std::string_view kBegin = "global_step_";
  if (!name.starts_with(kBegin)) return std::nullopt;
  const auto number = parse_number(name.substr(kBegin.size()));
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

constexpr StepNames kTrainerNames{parse_trainer_step, {}, "latest_checkpoint_iteration.txt"};

struct TrainerSteps {
  StepDirectories all;
  std::vector<std::string> complete{};  ///< that have a table, ascending
  std::vector<std::string> unfinished{};

  bool has(const std::string& step) const {
    return std::find(complete.begin(), complete.end(), step) != complete.end();
  }
};

/// nullopt if the directory is another program's: others, too, call steps so.
std::optional<TrainerSteps> find_trainer_steps(const fs::path& root, const SourceTreePtr& tree) {
  if (is_url(root)) return std::nullopt;
  auto found = list_steps(root, kTrainerNames, tree, /*needs_tracker=*/false);
  if (!found || found->directories.empty()) return std::nullopt;
  bool is_trainers = path_kind(root / kTrainerNames.tracker, tree) == PathKind::kOther;
  TrainerSteps steps{std::move(*found)};
  for (const auto& [step, directory] : steps.all.directories) {
    bool has_table = false;
    for (const DirectoryEntry& entry : list_directory(directory, tree)) {
      has_table |= entry.is_regular && entry.name.ends_with(kTableEnd);
      is_trainers |= entry.is_regular && is_hyper_rank_name(entry.name);
    }
    (has_table ? steps.complete : steps.unfinished).push_back(step);
  }
  return is_trainers ? std::optional(std::move(steps)) : std::nullopt;
}

std::string last_step(const fs::path& root, const TrainerSteps& steps) {
  if (steps.all.tracked && steps.has(*steps.all.tracked)) return *steps.all.tracked;
  if (!steps.complete.empty()) return steps.complete.back();
  throw Error(ErrorKind::kMissing, "no step has a table, which is written last: the saves of " +
                                       join_steps(steps.unfinished) +
                                       " were interrupted or are still running")
      .in_file(root.string())
      .hint("wait until a step is saved");
}

void note_steps(const TrainerSteps& steps, const std::string& wanted, Discovery& out) {
  std::vector<std::string> others;
  std::vector<std::string> newer;
  for (const std::string& step : steps.complete) {
    if (step == out.step) continue;
    const bool is_newer = steps.all.tracked && !steps.all.is_finished(step);
    (is_newer ? newer : others).push_back(step);
  }
  for (const auto& [step, directory] : steps.all.directories) out.steps.push_back(step);
  if (wanted == kLatestStep && !others.empty()) {
    out.notes.push_back("using step " + out.step + "; also available: " + join_steps(others));
  }
  const std::string tracker(kTrainerNames.tracker);
  if (wanted == kLatestStep && !newer.empty()) {
    out.warnings.push_back("newer than the step that " + tracker +
                           " names, and whole: " + join_steps(newer));
  }
  if (wanted == kLatestStep && steps.all.tracked && out.step != *steps.all.tracked) {
    out.warnings.push_back(tracker + " names step " + printable(*steps.all.tracked) +
                           ", which has no table");
  }
  if (!steps.unfinished.empty()) {
    out.notes.push_back("without a table, and so not finished: " + join_steps(steps.unfinished));
  }
}

}  // namespace

std::optional<Discovery> discover_hyper_steps(const fs::path& directory,
                                              const CheckpointOptions& options,
                                              const SourceTreePtr& tree) {
  const auto steps = find_trainer_steps(directory, tree);
  if (!steps) return std::nullopt;
  const ChosenStep chosen = choose_step(
      steps->all, options.step == kLatestStep ? last_step(directory, *steps) : options.step);
  CheckpointOptions inner = options;
  inner.step = kLatestStep;
  auto out = discover_dcp(chosen.directory, inner, tree);
  if (!out) {
    throw Error(ErrorKind::kMissing, "has no table: the save was interrupted or is still running")
        .in_file(chosen.directory.string())
        .hint("choose another step with --step");
  }
  out->step = chosen.step;
  out->steps.clear();
  if (auto note = links_outside(directory, steps->all.links))
    out->notes.push_back(std::move(*note));
  note_tracker(steps->all, *out);
  note_steps(*steps, options.step, *out);
  return out;
}

std::optional<std::vector<StepInfo>> find_hyper_steps(const fs::path& directory,
                                                      const SourceTreePtr& tree) {
  const auto found = find_trainer_steps(directory, tree);
  if (!found) return std::nullopt;
  std::vector<StepInfo> steps;
  for (const auto& [step, path] : found->all.directories) {
    steps.push_back({step, {Rank()}, found->has(step), {path}});
  }
  return steps;
}

}  // namespace reshardfs
