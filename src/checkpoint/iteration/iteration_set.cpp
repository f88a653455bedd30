// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/iteration/iteration_set.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/text.h"
#include "checkpoint/iteration/iteration_adapter.h"
#include "checkpoint/iteration/iteration_catalogue.h"
#include "checkpoint/iteration/iteration_names.h"
#include "checkpoint/ranks/source_pattern.h"
#include "checkpoint/series/series.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/source_links.h"
#include "format/mindformers/iteration_metadata.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

constexpr std::string_view kIterationExtension = ".safetensors";
/// Where the writer's output directory has the steps.
constexpr std::string_view kOutput = "checkpoint";
constexpr std::string_view kCommonJson = "common.json";
constexpr std::uint64_t kMostCommonBytes = std::uint64_t{1} << 20U;

/// A directory of Hugging Face, for the original too, whatever else is there.
bool is_published_model(const std::vector<DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.name == "model.safetensors" ||
           entry.name.ends_with("model.safetensors.index.json");
  });
}

bool has(const std::vector<DirectoryEntry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const DirectoryEntry& entry) { return entry.name == name; });
}

/// The directories of steps in a directory, or in the one below it where the writer's output
/// directory has them.
std::optional<StepDirectories> find_iterations(const std::filesystem::path& directory,
                                               const SourceTreePtr& tree, bool needs_tracker) {
  constexpr StepNames kNames{parse_iteration_directory, {}};
  if (auto found = list_steps(directory, kNames, tree, needs_tracker)) {
    if (!found->directories.empty() || list_directory(directory, tree).size() == 1) return found;
    return std::nullopt;  // the tracker is of another program, which keeps its steps elsewhere
  }
  const std::filesystem::path below = directory / kOutput;
  if (path_kind(below, tree) != PathKind::kDirectory) return std::nullopt;
  auto found = list_steps(below, kNames, tree, needs_tracker);
  if (found && is_link(below)) {
    if (refuses_links(tree)) throw link_refused(below);
    found->links.push_back(below);
  }
  return found;
}

/// The files of one step's directory.
class StepReader {
 public:
  StepReader(const std::filesystem::path& directory, std::string step, const SourceTreePtr& tree,
             const CheckpointOptions& options, Discovery& out)
      : directory_(directory),
        step_(std::move(step)),
        tree_(tree),
        options_(options),
        out_(out),
        entries_(list_directory(directory, tree)) {}

  /// @return the symbolic links among what was taken.
  std::vector<std::filesystem::path> read() {
    out_.step = step_;
    read_adapter();
    for (std::string& warning : unfinished_files(directory_, entries_, kIterationExtension)) {
      out_.warnings.push_back(std::move(warning));
    }
    if (has(entries_, kIterationMetadata)) {
      read_described();
    } else {
      read_whole();
    }
    compare_common();
    if (!out_.files.empty()) return std::move(links_);
    throw Error(ErrorKind::kMissing, "has no file of the step").in_file(directory_.string());
  }

 private:
  void note_link(const DirectoryEntry& entry) {
    if (!entry.is_link) return;
    if (refuses_links(tree_)) throw link_refused(directory_ / entry.name);
    links_.push_back(directory_ / entry.name);
  }

  /// A set of an adapter has a file that says of which model.
  void read_adapter() {
    if (!has(entries_, kIterationAdapter)) return;
    out_.adapter = adapter_of_iteration(directory_ / kIterationAdapter, tree_);
    out_.notes.push_back("the set is " + out_.adapter + ": it has no weights of the model itself");
  }

  /// The last of several saves on one device has been seen to write all files, so that this is no
  /// proof.
  void compare_common() {
    const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                    [](const auto& one) { return one.name == kCommonJson; });
    if (step_.empty() || entry == entries_.end() || !entry->is_regular) return;
    if (entry->is_link && refuses_links(tree_)) return;
    const auto json = JsonDocument::parse(
        read_small_file(directory_ / kCommonJson, kMostCommonBytes, unrecorded(tree_)));
    const auto stated =
        json && json->value().is_object() ? json->value().find("global_step") : std::nullopt;
    const auto step = stated ? stated->integer() : std::nullopt;
    if (!step || std::to_string(*step) == step_) return;
    out_.completeness.doubts.push_back(printable((directory_ / kCommonJson).string()) +
                                       " states global_step " + std::to_string(*step) +
                                       ", but the directory is of step " + step_ +
                                       ": are its files of one save?");
  }

  bool is_file_of_tensors(const DirectoryEntry& entry) const {
    return entry.is_regular && entry.name.ends_with(kIterationExtension);
  }

  void add(const DirectoryEntry& entry, Rank rank) {
    note_link(entry);
    const auto part = static_cast<std::int64_t>(out_.files.size());
    out_.files.push_back({rank, step_, directory_ / entry.name, part, tree_});
  }

  void read_described() {
    for (const DirectoryEntry& entry : entries_) {
      if (entry.name == kIterationMetadata) note_link(entry);
    }
    const ByteSourcePtr file = open_file(directory_ / kIterationMetadata, tree_);
    record_open(directory_ / kIterationMetadata, *file, tree_);
    auto metadata = std::make_shared<const IterationMetadata>(read_iteration_metadata(*file));
    out_.written_last.push_back({directory_ / kIterationMetadata, file->mtime_ns()});
    std::shared_ptr<const IterationCatalogue> catalogue;
    try {
      catalogue = std::make_shared<const IterationCatalogue>(metadata);
    } catch (Error& error) {
      throw error.in_file(file->name());
    }
    std::map<std::string_view, std::size_t> numbers;
    for (std::size_t i = 0; i < metadata->files.size(); ++i) {
      if (catalogue->file_ranks()[i]) numbers[metadata->files[i]] = i;
    }
    std::vector<std::string> doubtful;
    for (const DirectoryEntry& entry : entries_) {
      if (!is_file_of_tensors(entry)) continue;
      const auto known = numbers.find(entry.name);
      if (known == numbers.end()) {
        if (parse_iteration_file(entry.name)) doubtful.push_back(entry.name);
        continue;
      }
      add(entry, *catalogue->file_ranks()[known->second]);
      out_.files.back().part = static_cast<std::int64_t>(known->second);
      numbers.erase(known);
    }
    std::sort(out_.files.begin(), out_.files.end(), [](const FoundFile& a, const FoundFile& b) {
      return std::pair(a.rank, a.part) < std::pair(b.rank, b.part);
    });
    std::vector<std::string> missing;
    for (const auto& [name, number] : numbers) {
      missing.emplace_back(name);
      out_.missing.push_back({*catalogue->file_ranks()[number], step_, directory_ / name,
                              static_cast<std::int64_t>(number), tree_});
    }
    const std::string metadata_name(kIterationMetadata);
    if (!missing.empty()) {
      out_.notes.push_back("missing, though " + metadata_name +
                           " names them: " + name_list(missing));
    }
    if (!doubtful.empty()) {
      out_.completeness.doubts.push_back("not read, because " + metadata_name +
                                         " does not name them: " + name_list(doubtful));
    }
    out_.completeness.grounds.push_back(metadata_name);
    out_.catalogue = std::move(catalogue);
  }

  /// What one device saved, or what other tools wrote: every file counts, and all in it is whole.
  void read_whole() {
    const RankFiles chosen = choose_prefix();
    for (const DirectoryEntry& entry : entries_) {
      if (!is_file_of_tensors(entry)) continue;
      const auto name = parse_iteration_file(entry.name);
      const bool is_other =
          name && std::none_of(chosen.files.begin(), chosen.files.end(), [&](const auto& file) {
            return file.path.filename() == entry.name;
          });
      if (is_other) continue;
      if (name && name->count > 1) {
        throw Error(ErrorKind::kMissing, "has no " + std::string(kIterationMetadata) +
                                             ", but files of " + std::to_string(name->count) +
                                             " ranks, as " + printable(entry.name) +
                                             ": the save was interrupted or is still running")
            .in_file(directory_.string())
            .hint("choose another step");
      }
      add(entry, Rank());
    }
    out_.completeness = state_names(out_.files, directory_);
  }

  /// The files of one model among those whose names tell it. Nothing else says that two belong
  /// together.
  RankFiles choose_prefix() {
    RankFiles named;
    for (const DirectoryEntry& entry : entries_) {
      const auto name = is_file_of_tensors(entry) ? parse_iteration_file(entry.name) : std::nullopt;
      if (!name) continue;
      FoundFile file{name->rank, step_, directory_ / entry.name};
      file.series = name->prefix + "model";
      named.files.push_back(std::move(file));
    }
    if (named.files.empty()) {
      refuse_prefix(directory_, options_, "a set whose files have none");
      return named;
    }
    out_.series = choose_series(directory_, options_, tree_, named).name;
    return named;
  }

  const std::filesystem::path& directory_;
  std::string step_;
  const SourceTreePtr& tree_;
  const CheckpointOptions& options_;
  Discovery& out_;
  std::vector<DirectoryEntry> entries_;
  std::vector<std::filesystem::path> links_;
};

/// The step of a step's directory; empty if the name does not state it. Nothing for others.
std::optional<std::string> step_of_directory(const std::filesystem::path& directory,
                                             const SourceTreePtr& tree) {
  const std::vector<DirectoryEntry> entries = list_directory(directory, tree);
  if (is_published_model(entries)) return std::nullopt;
  auto step = parse_iteration_directory(directory_name(directory));
  const bool named = std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.is_regular && parse_iteration_file(entry.name).has_value();
  });
  const bool any_tensors =
      std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
        return entry.is_regular && entry.name.ends_with(kIterationExtension);
      });
  if (named || (step && any_tensors)) return step.value_or("");
  return std::nullopt;
}

/// @throws Error kBadInput if the directory has both kinds of sets.
void require_no_rank_files(const std::filesystem::path& root, const SourceTreePtr& tree) {
  const auto other = find_known_pattern(root, tree);
  if (!other) return;
  throw Error(ErrorKind::kBadInput,
              "has directories of steps (iteration_...) and files that match " + other->pattern)
      .in_file(root.string())
      .hint("name one step's directory as the source, or use --src-pattern '" + other->pattern +
            "'");
}

}  // namespace

std::optional<Discovery> discover_iterations(const std::filesystem::path& directory,
                                             const CheckpointOptions& options,
                                             const SourceTreePtr& tree) {
  Discovery out;
  if (const auto step = step_of_directory(directory, tree)) {
    require_step(directory, *step, options.step);
    const auto links = StepReader(directory, *step, tree, options, out).read();
    if (auto note = links_outside(directory, links)) out.notes.push_back(std::move(*note));
    if (!step->empty()) out.steps = {*step};
    return out;
  }
  const auto found = find_iterations(directory, tree, options.step == kLatestStep);
  if (!found) return std::nullopt;
  require_no_rank_files(directory, tree);
  const ChosenStep chosen = choose_step(*found, options.step);
  auto links = StepReader(chosen.directory, chosen.step, tree, options, out).read();
  links.insert(links.begin(), found->links.begin(), found->links.end());
  if (auto note = links_outside(directory, links)) out.notes.push_back(std::move(*note));
  note_tracker(*found, out);
  note_other_steps(*found, options.step, out);
  return out;
}

namespace {

/// Judged by the names of the files: metadata.json of a large set takes long to read.
StepInfo describe(const std::string& step, const std::filesystem::path& directory,
                  const SourceTreePtr& tree) {
  StepInfo info;
  info.name = step;
  info.places = {directory};
  std::map<bool, std::set<Rank>> ranks;  // by whether they are the optimizer's
  std::map<bool, std::set<std::int64_t>> counts;
  bool described = false;
  bool any = false;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    described = described || entry.name == kIterationMetadata;
    any = any || (entry.is_regular && entry.name.ends_with(kIterationExtension));
    const auto file = entry.is_regular ? parse_iteration_file(entry.name) : std::nullopt;
    if (!file) continue;
    ranks[file->of_optimizer].insert(file->rank);
    counts[file->of_optimizer].insert(file->count);
  }
  std::set<Rank> all;
  info.complete = any;
  for (const auto& [kind, of_kind] : ranks) {
    all.insert(of_kind.begin(), of_kind.end());
    const auto& count = counts[kind];
    const bool whole =
        count.size() == 1 && static_cast<std::int64_t>(of_kind.size()) == *count.begin() &&
        of_kind.rbegin()->number() < *count.begin() && (*count.begin() == 1 || described);
    info.complete = info.complete && whole;
  }
  if (all.empty()) all.insert(Rank());
  info.ranks.assign(all.begin(), all.end());
  return info;
}

}  // namespace

std::optional<std::vector<StepInfo>> find_iteration_steps(const std::filesystem::path& directory,
                                                          const SourceTreePtr& tree) {
  if (const auto step = step_of_directory(directory, tree)) {
    if (step->empty()) return std::vector<StepInfo>();
    return std::vector{describe(*step, directory, tree)};
  }
  const auto found = find_iterations(directory, tree, /*needs_tracker=*/true);
  if (!found) return std::nullopt;
  std::vector<StepInfo> steps;
  for (const auto& [step, path] : found->directories) {
    StepInfo info = describe(step, path, tree);
    info.complete = info.complete && found->tracked && found->is_finished(step);
    steps.push_back(std::move(info));
  }
  return steps;
}

}  // namespace reshardfs
