// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/discovery.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "checkpoint/path_pattern.h"
#include "checkpoint/step.h"
#include "storage/directory.h"

namespace reshardfs {
namespace {

constexpr std::array<std::string_view, 4> kKnownPatterns = {
    "rank_{rank}/*.ckpt", "node{rank}/*.ckpt", "ckpt_{rank}/*.ckpt", "*_rank_{rank}*.ckpt"};
constexpr std::string_view kLatest = "latest";
constexpr std::string_view kCheckpointSuffix = ".ckpt";
constexpr std::string_view kSafetensorsSuffix = ".safetensors";

using StepSet = std::set<std::string, OlderStep>;
/// The files of one rank by step.
using FilesByStep = std::map<std::string, std::vector<FoundFile>, OlderStep>;
using FilesByRank = std::map<std::int64_t, FilesByStep>;

Error safetensors_error(const std::filesystem::path& path, const std::string& what) {
  return Error(ErrorKind::kUnsupported, what + "; sources in safetensors format are not supported")
      .in_file(path.string())
      .hint("give a set of .ckpt files");
}

/// "9_50, 10_50"; long lists are cut: the newest stay.
std::string join_steps(const std::vector<std::string>& steps) {
  constexpr std::size_t kShown = 20;
  const std::size_t first = steps.size() > kShown ? steps.size() - kShown : 0;
  std::string out = first > 0 ? "..." : "";
  for (std::size_t i = first; i < steps.size(); ++i) {
    if (!out.empty()) out += ", ";
    out += steps[i].empty() ? "files without a step" : steps[i];
  }
  return out;
}

std::string step_words(const std::string& step) {
  return step.empty() ? "no step" : "step " + step;
}

std::string rank_words(const std::vector<std::int64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_rank_list(ranks);
}

// --- which pattern ------------------------------------------------------------------------------

struct PatternChoice {
  std::string pattern;
  RankFiles found;
};

bool holds_safetensors(const std::filesystem::path& root) {
  for (const DirectoryEntry& entry : list_directory(root)) {
    if (!entry.is_directory && entry.name.ends_with(kSafetensorsSuffix)) return true;
  }
  return std::any_of(kKnownPatterns.begin(), kKnownPatterns.end(), [&](std::string_view known) {
    known.remove_suffix(kCheckpointSuffix.size());
    const PathPattern pattern(std::string(known) + std::string(kSafetensorsSuffix));
    return !find_rank_files(root, pattern).files.empty();
  });
}

[[noreturn]] void throw_nothing_found(const std::filesystem::path& root,
                                      const std::vector<std::string>& patterns) {
  if (holds_safetensors(root)) {
    throw safetensors_error(root, "holds safetensors files, but no .ckpt files");
  }
  std::string looked_for;
  for (const std::string& pattern : patterns) {
    looked_for += (looked_for.empty() ? "" : ", ") + printable(pattern);
  }
  throw Error(ErrorKind::kMissing, "no rank's checkpoint was found; looked for " + looked_for)
      .in_file(root.string())
      .hint("say where the files are with --src-pattern, for example 'rank_{rank}/*.ckpt'");
}

PatternChoice choose_pattern(const std::filesystem::path& root, const std::string& wanted) {
  std::vector<std::string> patterns;
  if (wanted.empty()) {
    patterns.assign(kKnownPatterns.begin(), kKnownPatterns.end());
  } else {
    patterns.push_back(wanted);
  }
  for (const std::string& pattern : patterns) {
    RankFiles found = find_rank_files(root, PathPattern(pattern));
    if (!found.files.empty()) return {pattern, std::move(found)};
  }
  throw_nothing_found(root, patterns);
}

// --- which step ---------------------------------------------------------------------------------

/// The newest step of each rank must be the same: a job that died while saving leaves some ranks
/// a step behind, and mixing steps gives a model that never existed.
std::string latest_step(const std::filesystem::path& root, const FilesByRank& by_rank) {
  std::map<std::string, std::vector<std::int64_t>, OlderStep> ranks_by_newest;
  for (const auto& [rank, by_step] : by_rank) {
    ranks_by_newest[by_step.rbegin()->first].push_back(rank);
  }
  if (ranks_by_newest.size() == 1) return ranks_by_newest.begin()->first;
  std::string list;
  for (const auto& [step, ranks] : ranks_by_newest) {
    list += (list.empty() ? "" : ", ") + step_words(step) + " on " + rank_words(ranks);
  }
  throw Error(ErrorKind::kBadInput, "the newest step differs between ranks: " + list)
      .in_file(root.string())
      .hint("name the step that all ranks have with --step");
}

std::string named_step(const std::filesystem::path& root, const StepSet& steps,
                       const std::string& wanted) {
  const bool is_step = !wanted.empty() && step_prefix_length(wanted) == wanted.size();
  const auto found = is_step ? steps.find(wanted) : steps.end();
  if (found != steps.end()) return *found;
  throw Error(ErrorKind::kMissing, "no rank has a file of step '" + printable(wanted) +
                                       "'; there are: " + join_steps({steps.begin(), steps.end()}))
      .in_file(root.string())
      .hint("name one of these with --step");
}

FoundFile only_file(const std::filesystem::path& root, const std::vector<FoundFile>& files) {
  if (files.size() == 1) return files.front();
  std::string names;
  for (const FoundFile& file : files) {
    names += (names.empty() ? "'" : ", '") +
             printable(file.path.lexically_relative(root).string()) + "'";
  }
  throw Error(ErrorKind::kBadInput, std::to_string(files.size()) + " files for " +
                                        step_words(files.front().step) + ": " + names)
      .in_file(root.string())
      .for_rank(files.front().rank)
      .hint("say which one counts with --src-pattern");
}

FilesByRank group(const std::vector<FoundFile>& files) {
  FilesByRank by_rank;
  for (const FoundFile& file : files) by_rank[file.rank][file.step].push_back(file);
  return by_rank;
}

/// Fills `out` with the files of the step that the options ask for.
void choose_files(const std::filesystem::path& root, const FilesByRank& by_rank,
                  const std::string& wanted, Discovery& out) {
  StepSet steps;
  for (const auto& [rank, by_step] : by_rank) {
    for (const auto& [step, files] : by_step) steps.insert(step);
  }
  const bool latest = wanted == kLatest;
  out.step = latest ? latest_step(root, by_rank) : named_step(root, steps, wanted);

  std::vector<std::int64_t> without;
  for (const auto& [rank, by_step] : by_rank) {
    const auto files = by_step.find(out.step);
    if (files == by_step.end()) {
      without.push_back(rank);
    } else {
      out.files.push_back(only_file(root, files->second));
    }
  }
  if (!without.empty()) {
    out.notes.push_back(rank_words(without) + ": no file of " + step_words(out.step));
  }
  std::vector<std::string> others;
  for (const std::string& step : steps) {
    if (OlderStep{}(step, out.step) || OlderStep{}(out.step, step)) others.push_back(step);
    if (!step.empty()) out.steps.push_back(step);
  }
  if (latest && !others.empty()) {
    out.notes.push_back("took " + step_words(out.step) + "; also there: " + join_steps(others));
  }
}

void note_missing_ranks(const PatternChoice& choice, const FilesByRank& by_rank, Discovery& out) {
  std::vector<std::int64_t> missing;
  for (const std::int64_t rank : choice.found.ranks_with_directory) {
    if (!by_rank.contains(rank)) missing.push_back(rank);
  }
  if (missing.empty()) return;
  out.notes.push_back(rank_words(missing) + " missing: no file there matches " +
                      printable(choice.pattern));
}

Discovery discover_file(const std::filesystem::path& path, const CheckpointOptions& options) {
  const std::string name = path.filename().string();
  if (name.ends_with(kSafetensorsSuffix)) throw safetensors_error(path, "is a safetensors file");
  Discovery out;
  FilesByRank by_rank;
  by_rank[0][step_in_file_name(name)].push_back({0, step_in_file_name(name), path});
  choose_files(path, by_rank, options.step, out);
  if (!options.pattern.empty()) {
    out.notes.emplace_back("--src-pattern was not used: the source is one file");
  }
  return out;
}

}  // namespace

Discovery discover(const std::filesystem::path& source, const CheckpointOptions& options) {
  switch (path_kind(source)) {
    case PathKind::kMissing:
      throw Error(ErrorKind::kMissing, "there is no such file or directory")
          .in_file(source.string());
    case PathKind::kOther:
      return discover_file(source, options);
    case PathKind::kDirectory:
      break;
  }
  const PatternChoice choice = choose_pattern(source, options.pattern);
  const FilesByRank by_rank = group(choice.found.files);
  Discovery out;
  if (options.pattern.empty() && choice.pattern != kKnownPatterns.front()) {
    out.notes.push_back("took the files that match " + choice.pattern);
  }
  note_missing_ranks(choice, by_rank, out);
  choose_files(source, by_rank, options.step, out);
  return out;
}

}  // namespace reshardfs
