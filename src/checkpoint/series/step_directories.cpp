// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/step_directories.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/small_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTrackerBytes = 4096;

std::string read_tracker(const std::filesystem::path& path, const StepNames& names,
                         const SourceTreePtr& tree, std::int64_t& written_ns) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const auto [text, mtime_ns] = open_small_file(path, kMaxTrackerBytes, unrecorded(tree));
  written_ns = mtime_ns;
  const std::size_t begin = text.find_first_not_of(kSpace);
  std::string step = begin == std::string::npos
                         ? std::string()
                         : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
  const bool is_number = !step.empty() && std::all_of(step.begin(), step.end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
  if (is_number || (!names.release.empty() && step == names.release)) return step;
  if (const auto named = names.parse(step)) return *named;
  throw Error(ErrorKind::kBadInput, "should name the last step, but has '" + printable(step) + "'")
      .in_file(path.string())
      .hint("name a --step, or the directory of a step as the source");
}

Error choice_error(const StepDirectories& found, ErrorKind kind, const std::string& what) {
  std::vector<std::string> steps;
  for (const auto& [step, directory] : found.directories) steps.push_back(step);
  return Error(kind, what + "; available: " + (steps.empty() ? "none" : join_steps(steps)))
      .in_file(found.root.string())
      .hint("choose one with --step");
}

}  // namespace

bool StepDirectories::is_finished(const std::string& step) const {
  return !tracked || (!tracks_release && std::is_lteq(compare_steps(step, *tracked)));
}

std::optional<StepDirectories> list_steps(const std::filesystem::path& root, const StepNames& names,
                                          const SourceTreePtr& tree, bool needs_tracker) {
  StepDirectories out;
  out.root = root;
  out.tracker = names.tracker;
  bool has_tracker = false;
  for (const DirectoryEntry& entry : list_directory(root, tree)) {
    const bool is_tracker = entry.name == names.tracker;
    const bool is_release = entry.is_directory && entry.name == names.release;
    const auto step = entry.is_directory ? names.parse(entry.name) : std::nullopt;
    if (!is_tracker && !is_release && !step) continue;
    if (entry.is_link && refuses_links(tree)) throw link_refused(root / entry.name);
    if (entry.is_link) out.links.push_back(root / entry.name);
    has_tracker = has_tracker || is_tracker;
    if (is_release) out.release = root / entry.name;
    if (step) out.directories.emplace(*step, root / entry.name);
  }
  if (out.directories.empty() && !has_tracker) return std::nullopt;
  if (has_tracker) take_tracker(names, tree, needs_tracker, out);
  return out;
}

void take_tracker(const StepNames& names, const SourceTreePtr& tree, bool needs_tracker,
                  StepDirectories& out) {
  out.tracker = names.tracker;
  try {
    out.tracked = read_tracker(out.root / names.tracker, names, tree, out.tracked_ns);
    out.tracks_release = out.tracked == names.release;
  } catch (const Error&) {
    if (needs_tracker) throw;
  }
}

std::optional<fs::path> tracked_directory(const fs::path& root, const StepNames& names,
                                          const SourceTreePtr& tree) {
  constexpr std::uint64_t kMostBytes = 4096;
  const fs::path tracker = root / names.tracker;
  if (path_kind(tracker, tree) != PathKind::kOther) return std::nullopt;
  std::string name = read_small_file(tracker, kMostBytes, unrecorded(tree));
  name.erase(name.find_last_not_of(" \t\r\n") + 1);
  if (names.parse(name) || !is_plain_file_name(name)) return std::nullopt;
  const fs::path named = root / name;
  return path_kind(named, tree) == PathKind::kDirectory ? std::optional(named) : std::nullopt;
}

ChosenStep choose_step(const StepDirectories& found, const std::string& wanted) {
  const std::string& tracker = found.tracker;
  const bool latest = wanted == kLatestStep;
  if (wanted == kAllSteps) throw choice_error(found, ErrorKind::kUsage, kAllStepsRefused);
  if (latest && !found.tracked) {
    throw choice_error(found, ErrorKind::kMissing,
                       "has no " + tracker + ", which names the last step saved");
  }
  const std::string& step = latest ? *found.tracked : wanted;
  const bool is_release =
      latest ? found.tracks_release : found.release && found.release->filename() == step;
  if (is_release && found.release) return {{}, *found.release};
  const bool is_step = !step.empty() && step_prefix_length(step) == step.size();
  const auto known = is_step ? found.directories.find(step) : found.directories.end();
  if (known != found.directories.end()) return {known->first, known->second};
  throw choice_error(found, ErrorKind::kMissing,
                     (latest ? tracker + " names step '" : "there is no directory of step '") +
                         printable(step) + (latest ? "', but that directory does not exist" : "'"));
}

void note_tracker(const StepDirectories& found, Discovery& out) {
  if (!found.tracked || out.step.empty() || !found.is_finished(out.step)) return;
  const std::size_t others = found.directories.size() - 1 + (found.release ? 1 : 0);
  out.written_last.push_back({found.root / found.tracker, found.tracked_ns, others});
}

void note_other_steps(const StepDirectories& found, const std::string& wanted, Discovery& out) {
  std::vector<std::string> older;
  std::vector<std::string> newer;
  for (const auto& [step, directory] : found.directories) {
    out.steps.push_back(step);
    if (std::is_eq(compare_steps(step, out.step))) continue;
    (found.is_finished(step) ? older : newer).push_back(step);
  }
  const std::string& tracker = found.tracker;
  if (wanted == kLatestStep && !older.empty()) {
    out.notes.push_back("using step " + out.step + "; also available: " + join_steps(older));
  }
  if (wanted == kLatestStep && !newer.empty()) {
    out.notes.push_back("newer than the step that " + tracker +
                        " names, and perhaps not complete: " + join_steps(newer));
  }
  if (!out.step.empty() && !found.is_finished(out.step)) {
    out.notes.push_back("step " + out.step + " is newer than the one that " + tracker +
                        " names: it may not be complete");
  }
}

std::string directory_name(const std::filesystem::path& directory) {
  // "." and a trailing slash say nothing.
  return std::filesystem::absolute(directory / "x")
      .lexically_normal()
      .parent_path()
      .filename()
      .string();
}

void require_step(const std::filesystem::path& directory, const std::string& step,
                  const std::string& wanted) {
  if (wanted == kLatestStep || (!step.empty() && std::is_eq(compare_steps(step, wanted)))) return;
  const bool all = wanted == kAllSteps;
  throw Error(all ? ErrorKind::kUsage : ErrorKind::kMissing,
              "is the directory of " + (step.empty() ? "one step" : "step " + step) +
                  (all ? std::string(" alone") : ", not of step '" + printable(wanted) + "'"))
      .in_file(directory.string())
      .hint("leave --step out, or name the directory above as the source");
}

}  // namespace reshardfs
