// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/discovery.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/file_name.h"
#include "base/text/near_name.h"
#include "checkpoint/items/item_recognition.h"
#include "checkpoint/neighbours.h"
#include "checkpoint/ranks/file_alone.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/ranks/rank_place.h"
#include "checkpoint/series/meta_json.h"
#include "checkpoint/series/series.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/steps.h"
#include "checkpoint/set_faults.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"
#include "checkpoint/whole/index_statement.h"
#include "storage/local/directory.h"
#include "storage/location.h"
#include "storage/near_path.h"

namespace reshardfs {
namespace {

using StepSet = std::set<std::string, OlderStep>;

/// What to do where the newest step cannot be taken.
std::string hint_at_complete_step(const std::filesystem::path& root, const RankFiles& found,
                                  const std::string& otherwise) {
  const std::vector<StepInfo> steps = describe_steps(root, found);
  const auto newest = std::find_if(steps.rbegin(), steps.rend(),
                                   [](const StepInfo& step) { return step.complete; });
  return newest == steps.rend() ? otherwise : "--step " + newest->name + " is complete";
}

/// Whether the file that an unfinished one is to become is there.
bool has_finished(const FilesByRank& by_rank, const FoundFile& unfinished) {
  const auto rank = by_rank.find(unfinished.rank);
  if (rank == by_rank.end()) return false;
  const auto step = rank->second.find(unfinished.step);
  return step != rank->second.end() &&
         std::any_of(step->second.begin(), step->second.end(),
                     [&](const FoundFile& file) { return file.part == unfinished.part; });
}

/// Files of `step` that are being written, or were when the job died, where the finished one is not
/// there.
std::vector<FoundFile> being_written(const RankFiles& found, const FilesByRank& by_rank,
                                     const std::string& step) {
  std::vector<FoundFile> files;
  for (const FoundFile& file : found.unfinished) {
    if (std::is_neq(compare_steps(file.step, step))) continue;
    if (!has_finished(by_rank, file)) files.push_back(file);
  }
  return files;
}

/// "rank 3 has llama-3_100.ckpt.part instead of a finished file"
std::string unfinished_words(const std::vector<FoundFile>& files) {
  std::map<Rank, std::string> names;
  for (const FoundFile& file : files) {
    names.try_emplace(file.rank, file.path.filename().string());
  }
  std::vector<Rank> ranks;
  ranks.reserve(names.size());
  for (const auto& [rank, name] : names) ranks.push_back(rank);
  return rank_words(ranks) + (ranks.size() == 1 ? " has " : " have files such as ") +
         printable(names.begin()->second) + " instead of a finished file";
}

/// The newest step of each rank must be the same: a job that died while saving leaves some ranks
/// a step behind, and mixing steps gives a model that never existed.
std::string latest_step(const std::filesystem::path& root, const RankFiles& found,
                        const FilesByRank& by_rank) {
  std::map<std::string, std::vector<Rank>, OlderStep> ranks_by_newest;
  for (const auto& [rank, by_step] : by_rank) {
    ranks_by_newest[by_step.rbegin()->first].push_back(rank);
  }
  if (ranks_by_newest.size() > 1) {
    std::string list;
    for (const auto& [step, ranks] : ranks_by_newest) {
      list += (list.empty() ? "" : ", ") + step_words(step) + " on " + rank_words(ranks);
    }
    throw Error(ErrorKind::kBadInput, "the newest step differs between ranks: " + list)
        .in_file(root.string())
        .hint(hint_at_complete_step(root, found, "name the step that all ranks have with --step"));
  }
  const std::string& newest = ranks_by_newest.begin()->first;
  const auto writing = being_written(found, by_rank, newest);
  if (!writing.empty()) {
    const std::string what = newest.empty() ? "the checkpoint" : "the newest step, " + newest + ",";
    throw Error(ErrorKind::kBadInput, what + " is not complete: " + unfinished_words(writing))
        .in_file(root.string())
        .hint(hint_at_complete_step(root, found, "wait until it is saved, or name a --step"));
  }
  return newest;
}

std::string named_step(const std::filesystem::path& root, const StepSet& steps,
                       const std::string& wanted) {
  if (wanted == kAllSteps) {
    throw Error(ErrorKind::kUsage, kAllStepsRefused)
        .hint("choose one with --step: " + join_steps({steps.begin(), steps.end()}) +
              ", or latest");
  }
  const bool is_step = !wanted.empty() && step_prefix_length(wanted) == wanted.size();
  const auto found = is_step ? steps.find(wanted) : steps.end();
  if (found != steps.end()) return *found;
  throw Error(ErrorKind::kMissing, "no rank has a file of step '" + printable(wanted) +
                                       "'; available: " + join_steps({steps.begin(), steps.end()}))
      .in_file(root.string())
      .hint(did_you_mean(wanted, {steps.begin(), steps.end()}))
      .hint("choose one with --step");
}

/// The newest step that any rank has. Ranks that lack it are reported as problems.
std::string newest_step(const FilesByRank& by_rank) {
  std::string newest;
  for (const auto& [rank, by_step] : by_rank) {
    newest = std::max(newest, by_step.rbegin()->first, OlderStep());
  }
  return newest;
}

void add_fault(SetFaults& faults, Rank rank, const std::filesystem::path& file,
               const std::string& message) {
  faults.list.push_back(
      {FaultKind::kStep, rank, Error(ErrorKind::kMissing, message).in_file(file.string())});
}

/// The files of out.step, and which ranks have none.
void take_files(const std::filesystem::path& root, const FilesByRank& by_rank, SetFaults* faults,
                Discovery& out) {
  std::vector<Rank> without;
  for (const auto& [rank, by_step] : by_rank) {
    const auto step = by_step.find(out.step);
    if (step == by_step.end()) {
      without.push_back(rank);
      if (faults == nullptr) continue;
      const auto& [newest, files] = *by_step.rbegin();
      add_fault(
          *faults, rank, files.front().path.parent_path(),
          "no file of " + step_words(out.step) + "; the newest there is of " + step_words(newest));
      continue;
    }
    std::vector<FoundFile> files = step->second;
    if (auto problem = rank_part_problem(root, files)) {
      if (faults == nullptr) throw Error(*problem);
      add_fault(*faults, rank, files.front().path.parent_path(), problem->message());
      continue;
    }
    std::sort(files.begin(), files.end(),
              [](const FoundFile& a, const FoundFile& b) { return a.part < b.part; });
    for (FoundFile& file : files) out.files.push_back(std::move(file));
  }
  if (!without.empty()) {
    out.notes.push_back(rank_words(without) + ": no file of " + step_words(out.step));
  }
}

/// Fills `out` with the files of the step that the options ask for.
void choose_files(const std::filesystem::path& root, const RankFiles& found,
                  const std::string& wanted, SetFaults* faults, Discovery& out) {
  const FilesByRank by_rank = group_by_rank(found.files);
  StepSet steps;
  for (const FoundFile& file : found.files) steps.insert(file.step);
  const bool latest = wanted == kLatestStep;
  if (!latest) {
    out.step = named_step(root, steps, wanted);
  } else {
    out.step = faults == nullptr ? latest_step(root, found, by_rank) : newest_step(by_rank);
  }
  take_files(root, by_rank, faults, out);
  if (faults != nullptr) {
    for (const FoundFile& file : being_written(found, by_rank, out.step)) {
      add_fault(*faults, file.rank, file.path, "is there instead of a finished file");
    }
  }

  std::vector<std::string> others;
  for (const std::string& step : steps) {
    if (std::is_neq(compare_steps(step, out.step))) others.push_back(step);
    if (!step.empty()) out.steps.push_back(step);
  }
  if (!latest) {
    const auto writing = being_written(found, by_rank, out.step);
    if (!writing.empty()) {
      out.notes.push_back(step_words(out.step) + " is not complete: " + unfinished_words(writing));
    }
    return;
  }
  if (!others.empty()) {
    out.notes.push_back("using " + step_words(out.step) +
                        "; also available: " + join_steps(others));
  }
  if (out.step.empty() || out.files.empty()) return;
  for (std::string& note : compare_with_meta(found.meta_files, out.step, out.files.front().tree)) {
    out.notes.push_back(std::move(note));
  }
}

/// Ranks with a directory, but without a file in `taken`.
std::vector<Rank> empty_ranks(const RankFiles& found, const std::vector<FoundFile>& taken) {
  std::set<Rank> ranks = found.ranks_with_directory;
  ranks.insert(found.ranks_of_other_series.begin(), found.ranks_of_other_series.end());
  for (const FoundFile& file : taken) ranks.erase(file.rank);
  return {ranks.begin(), ranks.end()};
}

void note_missing_ranks(const SourceFiles& source, Discovery& out) {
  std::set<Rank> missing = source.found.ranks_with_directory;
  for (const FoundFile& file : source.found.files) missing.erase(file.rank);
  const std::set<Rank>& others = source.found.ranks_of_other_series;
  for (const Rank rank : others) missing.erase(rank);
  if (auto warning = ranks_without(source.series, source.found)) {
    out.warnings.push_back(std::move(*warning));
  }
  if (missing.empty()) return;
  out.notes.push_back(rank_words({missing.begin(), missing.end()}) +
                      " missing: no file there matches " + printable(source.pattern));
}

}  // namespace

SourceFiles find_all_files(const std::filesystem::path& source, const CheckpointOptions& options) {
  switch (path_kind(source, options.listed)) {
    case PathKind::kMissing:
      throw Error(ErrorKind::kMissing, "no such file or directory")
          .in_file(source.string())
          .hint(did_you_mean_path(source))
          .hint("give a checkpoint directory or a checkpoint file as the source");
    case PathKind::kOther:
      return take_one_file(source, options.pattern);
    case PathKind::kDirectory:
      break;
  }
  return find_by_pattern(source, options.pattern, source_tree(source, options));
}

std::filesystem::path config_of(const std::filesystem::path& source,
                                const CheckpointOptions& options) {
  const bool is_index = is_index_name(source.filename().string());
  const std::filesystem::path place = is_index ? source.parent_path() : source;
  std::filesystem::path config = place / "config.json";
  // Where trainers keep what belongs to the model beside the weights: verl, NeMo 2.
  for (const char* const other : {"huggingface/config.json", "context/config.json"}) {
    if (is_url(place) || path_kind(config) != PathKind::kMissing) break;
    if (path_kind(place / other) == PathKind::kOther) config = place / other;
  }
  return options.no_symlinks && is_link(config) ? std::filesystem::path() : config;
}

SourceFiles find_source_files(const std::filesystem::path& source,
                              const CheckpointOptions& options) {
  SourceFiles files = find_all_files(source, options);
  if (files.name_map) refuse_prefix(source, options, "one whole model");
  if (files.pattern.empty()) {
    refuse_prefix(source, options, "one file");
    return files;
  }
  SeriesChoice choice = choose_series(source, options, source_tree(source, options), files.found);
  files.series = std::move(choice.name);
  files.warnings = std::move(choice.warnings);
  return files;
}

namespace {

/// The set in files of ranks or of a whole model.
Discovery discover_files(const std::filesystem::path& source, const CheckpointOptions& options,
                         SourceFiles files, SetFaults* faults) {
  Discovery out;
  out.series = files.series;
  out.found_by.pattern = files.pattern;
  out.found_by.are_counted = files.is_whole;
  out.notes = std::move(files.notes);
  out.warnings = std::move(files.warnings);
  if (auto note = links_outside(source, files.found.links)) out.notes.push_back(std::move(*note));
  if ((files.name_map || files.is_whole) && options.step != kLatestStep) throw no_steps(source);
  if (files.name_map) {
    out.files = std::move(files.found.files);
    out.places = files.name_map->places;
    out.place_names = files.name_map->names;
    out.found_by.index = files.name_map->map_file.filename().string();
    out.found_by.metadata = files.name_map->metadata;
    out.completeness = state_names(out.files, source);
    state_index(*files.name_map, out.completeness);
    out.by_contents = [index = std::move(*files.name_map), config = config_of(source, options),
                       tree = source_tree(source, options)](const std::vector<RankFile>& opened,
                                                            Completeness& statement) {
      state_total(index, opened, config, tree, statement);
    };
    return out;
  }
  if (files.is_whole) {
    out.files = std::move(files.found.files);
    out.completeness = state_names(out.files, source);
    return out;
  }
  note_missing_ranks(files, out);
  choose_files(source, files.found, options.step, faults, out);
  if (faults != nullptr) faults->empty_ranks = empty_ranks(files.found, out.files);
  state_files(files, source, out);
  return out;
}

}  // namespace

NeighbourHints neighbour_hints(const SourceFiles& files) {
  NeighbourHints hints{files.pattern.empty(), {}};
  if (files.name_map) {
    hints.named = files.name_map->beside;
    const std::vector<std::string>& indexes = files.name_map->other_indexes;
    hints.named.insert(hints.named.end(), indexes.begin(), indexes.end());
  }
  return hints;
}

Discovery discover(const std::filesystem::path& source, const CheckpointOptions& options,
                   SetFaults* faults) {
  const CheckpointOptions listed = listed_once(source, options);
  if (auto described = discover_described_set(source, listed)) {
    note_neighbours(source, listed, source_tree(source, listed), {}, *described);
    return std::move(*described);
  }
  // With a pattern, the user has chosen among the files.
  if (listed.pattern.empty()) {
    refuse_item_part(source);
    if (path_kind(source, listed.listed) == PathKind::kDirectory) refuse_one_rank(source);
  }
  SourceFiles files = find_source_files(source, listed);
  const NeighbourHints hints = neighbour_hints(files);
  Discovery out = discover_files(source, listed, std::move(files), faults);
  note_neighbours(source, listed, source_tree(source, listed), hints, out);
  return out;
}

}  // namespace reshardfs
