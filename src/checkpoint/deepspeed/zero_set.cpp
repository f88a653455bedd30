// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_set.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/deepspeed/joined_tensors.h"
#include "checkpoint/deepspeed/module_copies.h"
#include "checkpoint/deepspeed/zero_experts.h"
#include "checkpoint/deepspeed/zero_layers.h"
#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/deepspeed/zero_part.h"
#include "checkpoint/deepspeed/zero_stage0.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr StepNames kZeroTagNames{parse_zero_tag, {}, "latest"};

/// The files of each mp_rank, which are of stages of a pipeline, or of ranks of tensor parallelism
/// that state their cuts.
/// @return whether they are the latter.
/// @throws Error kUnsupported if they may be of ranks that state no cuts; kMissing if some are not
///         there.
bool are_cut(const fs::path& directory, const ZeroStep& step, const ZeroModelStates& model) {
  const auto parts = static_cast<std::int64_t>(step.parts.size());
  const std::string& file = step.parts.rbegin()->second.model.empty()
                                ? step.parts.rbegin()->second.optimizer.begin()->second
                                : step.parts.rbegin()->second.model.begin()->second;
  const auto is_one = [](std::optional<std::int64_t> ranks) { return !ranks || *ranks == 1; };
  const bool is_plain = parts == 1 && step.layers.empty() && is_one(model.model_world);
  if (is_plain && is_one(model.tensor_world)) return false;
  // Before 0.19, files of layers alone tell a pipeline; with tensor parallelism, each has several.
  const std::int64_t tensor_world =
      model.tensor_world.value_or(step.layers.empty() ? model.model_world.value_or(parts) : 1);
  const bool states_cuts = !model.cuts.empty() && is_one(model.pipeline_world);
  if (!states_cuts &&
      (tensor_world > 1 || (step.layers.empty() && !model.pipeline_world && parts > 1))) {
    throw uncut_zero(directory, file);
  }
  const std::int64_t expected = states_cuts ? tensor_world : model.pipeline_world.value_or(parts);
  if (expected == parts) return states_cuts;
  throw Error(ErrorKind::kMissing,
              "has files of " + std::to_string(parts) + " of the " + std::to_string(expected) +
                  (states_cuts ? " ranks of its tensor parallelism" : " stages of its pipeline"))
      .in_file(directory.string())
      .hint(kBringAll);
}

/// All ranks of tensor parallelism must state the same cuts.
void require_same_cuts(const fs::path& directory,
                       const std::vector<std::unique_ptr<ZeroPart>>& parts) {
  for (const auto& part : parts) {
    if (part->model().cuts == parts.front()->model().cuts) continue;
    throw Error(ErrorKind::kBadInput,
                "has files of ranks of tensor parallelism whose affine_map differs")
        .in_file(directory.string())
        .hint(kBringAll);
  }
}

/// A file of another save, or of another rank, differs wherever it has anything. A few parameters
/// differ if a training script changed them after the optimizer's step.
/// @throws Error kBadInput
void judge_copies(const fs::path& directory, const CopyEvidence& evidence, Discovery& out) {
  if (evidence.differing.empty()) return;
  const std::string names = name_list(evidence.differing);
  if (evidence.file.empty()) {
    out.warnings.push_back("`module` differs from the optimizer's float32, which is shown: " +
                           names);
    return;
  }
  throw Error(ErrorKind::kBadInput, "'" + printable(fs::path(evidence.file).filename().string()) +
                                        "' is of another rank or of another save: its float32, "
                                        "rounded, differs from 'module' in " +
                                        names)
      .in_file(directory.string())
      .hint(kBringAll);
}

/// What a layer has beside its parameters is in its file alone.
void require_layers(const fs::path& directory, const ZeroStep& step, const ZeroModelStates& model) {
  if (step.layers.empty()) return;
  for (const auto& group : model.groups) {
    for (const ZeroShape& parameter : group) {
      std::string_view name = parameter.name;
      const auto layer = take_number<std::int64_t>(name);
      if (!layer || !name.starts_with('.') || step.layers.contains(*layer)) continue;
      throw Error(ErrorKind::kMissing, "has no file of layer " + std::to_string(*layer))
          .in_file(directory.string())
          .for_parameter(parameter.name)
          .hint(kBringAll);
    }
  }
}

Discovery read_files(const fs::path& directory, const ZeroStep& step, const SourceTreePtr& tree) {
  if (!step.experts.empty() || step.has_other_experts) return read_experts(directory, step, tree);
  const ZeroFiles& first = step.parts.begin()->second;
  if (step.parts.size() == 1 && first.optimizer.empty() && first.model.size() == 1) {
    auto plain = read_without_zero(directory, first.model.begin()->second, tree);
    if (plain) return std::move(*plain);
  }
  if (!step.layers.empty()) {
    auto layers = read_layers_without_zero(directory, step, tree);
    if (layers) return std::move(*layers);
  }
  std::vector<JoinedTensors> joined;
  joined.reserve(step.parts.size());
  std::vector<std::unique_ptr<ZeroPart>> parts;
  std::vector<ZeroFile> facts;
  std::int64_t expected = 0;
  for (const auto& [number, files] : step.parts) {
    if (number != expected++) {
      throw Error(ErrorKind::kMissing, "has files of mp_rank " + std::to_string(number) +
                                           ", but none of " + std::to_string(expected - 1))
          .in_file(directory.string())
          .hint(kBringAll);
    }
    const auto& named = files.model.empty() ? files.optimizer : files.model;
    joined.emplace_back(directory / named.begin()->second);
    parts.push_back(std::make_unique<ZeroPart>(directory, files, tree, joined.back()));
    parts.back()->open();
    facts.insert(facts.end(), parts.back()->facts().begin(), parts.back()->facts().end());
  }
  const bool is_cut = are_cut(directory, step, parts.front()->model());
  if (is_cut) require_same_cuts(directory, parts);
  if (parts.size() > 1) require_one_zero_save(directory, facts);
  std::size_t files = 0;
  for (std::size_t number = 0; number < parts.size(); ++number) {
    require_layers(directory, step, parts[number]->model());
    parts[number]->take();
    if (is_cut) parts[number]->cut(number);
    files += parts[number]->optimizer_files();
  }
  LeftOfFiles left;
  take_layers(directory, step.layers, tree, joined, left);
  std::vector<ModuleCopies> copies;
  Discovery out = JoinedTensors::finish(std::move(joined), copies);
  judge_copies(directory, take_copies(std::move(copies), out), out);
  out.completeness.grounds.push_back("the lengths of the flat groups in " + counted(files, "file"));
  out.completeness.counted = true;
  note_other_step(directory, facts, out);
  if (!step.layers.empty() && !parts.front()->model().pipeline_world) {
    out.completeness.doubts.push_back("no file states how many stages the pipeline has; " +
                                      std::to_string(parts.size()) + " are there");
  }
  for (const auto& part : parts) {
    part->state(out);
    left.files.insert(left.files.end(), part->files().begin(), part->files().end());
  }
  state_left(left, out);
  return out;
}

std::optional<StepDirectories> find_zero_tags(const fs::path& directory, const SourceTreePtr& tree,
                                              bool needs_tracker) {
  auto found = list_steps(directory, kZeroTagNames, tree, needs_tracker);
  if (!found || found->directories.empty()) return std::nullopt;
  return found;
}

/// The directory that `latest` names, as programs may choose it, if it has a checkpoint.
std::optional<fs::path> own_tag_of(const fs::path& directory, const SourceTreePtr& tree) {
  const auto named = tracked_directory(directory, kZeroTagNames, tree);
  return named && find_zero_files(*named, tree) ? named : std::nullopt;
}

}  // namespace

std::optional<Discovery> discover_deepspeed(const fs::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree) {
  if (auto files = find_zero_files(directory, tree)) {
    const std::string step = parse_zero_tag(directory_name(directory)).value_or("");
    require_step(directory, step, options.step);
    Discovery out = read_files(directory, *files, tree);
    out.step = step;
    if (!step.empty()) out.steps = {step};
    return out;
  }
  if (options.step == kLatestStep) {
    if (const auto own = own_tag_of(directory, tree))
      return discover_deepspeed(*own, options, tree);
  }
  const auto found = find_zero_tags(directory, tree, options.step == kLatestStep);
  if (!found) return std::nullopt;
  const ChosenStep chosen = choose_step(*found, options.step);
  auto files = find_zero_files(chosen.directory, tree);
  if (!files) return std::nullopt;
  Discovery out = read_files(chosen.directory, *files, tree);
  out.step = chosen.step;
  if (auto note = links_outside(directory, found->links)) out.notes.push_back(std::move(*note));
  note_other_steps(*found, options.step, out);
  return out;
}

std::optional<std::vector<StepInfo>> find_deepspeed_steps(const fs::path& directory,
                                                          const SourceTreePtr& tree) {
  if (find_zero_files(directory, tree)) {
    const auto step = parse_zero_tag(directory_name(directory));
    if (!step) return std::vector<StepInfo>();
    return std::vector<StepInfo>{{*step, {Rank()}, true, {directory}}};
  }
  const auto found = find_zero_tags(directory, tree, /*needs_tracker=*/false);
  if (!found) {
    return own_tag_of(directory, tree) ? std::optional(std::vector<StepInfo>()) : std::nullopt;
  }
  std::vector<StepInfo> steps;
  for (const auto& [step, path] : found->directories) {
    if (!find_zero_files(path, tree)) continue;
    steps.push_back({step, {Rank()}, found->tracked && found->is_finished(step), {path}});
  }
  if (steps.empty()) return std::nullopt;
  return steps;
}

}  // namespace reshardfs
