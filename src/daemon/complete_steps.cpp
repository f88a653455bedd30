// SPDX-License-Identifier: Apache-2.0
#include "daemon/complete_steps.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/process/free_memory.h"
#include "base/rank_list.h"
#include "base/sha256.h"
#include "base/text/url_path.h"
#include "checkpoint/recognition.h"
#include "checkpoint/series/series.h"
#include "checkpoint/series/step.h"
#include "conversion/source_opening.h"
#include "daemon/outage.h"
#include "fuse/event_log.h"
#include "storage/local/directory.h"
#include "storage/local/path_stamp.h"
#include "view/view.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// How many of the newest steps are examined closely in any case.
constexpr std::size_t kNewest = 16;
/// For how long list() examines and opens steps.
constexpr std::chrono::seconds kTime{1};
/// How much longer than a step was examined or opened it is left alone.
constexpr int kRest = 4;
/// When a step is tried again whose source fails, or tells no changes.
constexpr std::chrono::seconds kRetryAfter{10};

/// Empty: nothing tells whether the step has changed.
template <typename Stamp>
std::string stamps_of(const StepInfo& step, Stamp&& stamp) {
  std::string all = step.listed_mtime_ns == 0 ? "" : std::to_string(step.listed_mtime_ns);
  for (const std::filesystem::path& place : step.places) {
    if (!is_url(place)) all += stamp(place) + "\n";
  }
  return all;
}

fs::path common_directory(const fs::path& a, const fs::path& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  fs::path common;
  for (auto part = a.begin(); part != end; ++part) common /= *part;
  return common;
}

std::string short_sum(const std::string& text) {
  constexpr std::size_t kDigits = 32;
  return sha256_of(std::as_bytes(std::span(text))).substr(0, kDigits);
}

}  // namespace

std::vector<StepInfo> steps_of(const ConversionOptions& options) {
  return find_steps(options.source.path, set_options(options.source));
}

std::string series_of(const ConversionOptions& options) {
  return chosen_series(options.source.path, set_options(options.source));
}

std::string step_contents(const Conversion& conversion) {
  std::set<std::string> facts;
  std::optional<fs::path> top;  // of the step: below it is nothing of the run
  for (const ConversionSource& source : conversion.source_files()) {
    facts.insert(fmt::format("{} {} {} {} {}\n", source.path.filename().string(), source.bytes,
                             source.mtime_ns, source.ctime_ns, source.inode));
    const fs::path place = source.path.parent_path();
    top = top ? common_directory(*top, place) : place;
  }
  for (const auto& inputs :
       {ConversionAccess::inputs(conversion), ConversionAccess::companions(conversion)}) {
    for (const Input& input : inputs) {
      if (!top || !is_inside_by_name(input.path, *top)) continue;
      facts.insert(fmt::format("{} {} {}\n", input.path.lexically_relative(*top).string(),
                               input.content, input.version));
    }
  }
  return short_sum(fmt::format("{}", fmt::join(facts, "")));
}

CompleteSteps::CompleteSteps(ConversionOptions options, std::optional<RankRange> ranks)
    : options_(std::move(options)), ranks_(ranks) {
  // Checked when a program opens the step.
  options_.check_replicas = false;
  options_.source.check_crc = false;
  // What selects something of one step may select nothing of another.
  options_.source.allow_unmatched = true;
  options_.source.step = kLatestStep;
}

void CompleteSteps::trust(const std::vector<std::string>& names) {
  for (const std::string& name : names) judged_[name].is_whole = true;
}

void CompleteSteps::doubt(const std::string& step) {
  const std::lock_guard lock(mutex_);
  doubted_.insert(step);
}

StepTree::Listing CompleteSteps::list(const std::set<std::string>& open) {
  std::vector<StepInfo> steps = steps_of(options_);
  std::erase_if(steps, [](const StepInfo& step) { return !step.complete; });
  std::set<std::string> doubted;
  {
    const std::lock_guard lock(mutex_);
    doubted.swap(doubted_);
  }
  const Clock::time_point deadline = Clock::now() + kTime;
  std::set<std::string> present;
  newer_is_whole_ = false;
  obstacle_.clear();
  StepTree::Listing listing;
  const std::string begin = std::exchange(resume_at_, "");
  bool has_begun = begin.empty();
  for (std::size_t i = steps.size(); i-- > 0;) {
    const StepInfo& step = steps[i];
    present.insert(step.name);
    Judgement& known = judged_[step.name];
    if (doubted.contains(step.name)) {
      known.is_known = false;
      known.is_doubted = true;
      known.next_at = {};
    }
    has_begun = has_begun || step.name == begin;
    const bool closely = steps.size() - i <= kNewest || open.contains(step.name);
    // The last list() has come as far as this.
    if (has_begun || closely || !known.is_known) {
      if (!look_at(step, closely || !known.is_whole, deadline, known)) listing.has_more = true;
      if (has_begun && resume_at_.empty() && Clock::now() > deadline) resume_at_ = step.name;
    }
    newer_is_whole_ = newer_is_whole_ || known.is_whole;
    if (known.is_whole) listing.steps.push_back({step.name, known.contents});
  }
  std::erase_if(judged_, [&](const auto& judged) { return !present.contains(judged.first); });
  std::reverse(listing.steps.begin(), listing.steps.end());
  return listing;
}

/// @return false if the time was over before it could be opened.
bool CompleteSteps::look_at(const StepInfo& step, bool closely, Clock::time_point deadline,
                            Judgement& known) {
  const Clock::time_point begin = Clock::now();
  if (begin < known.next_at) return true;
  if (begin > deadline) return known.is_known;
  try {
    const bool same_ranks = known.ranks == step.ranks;
    std::string near = stamps_of(step, path_stamp);
    const bool is_same = known.is_known && same_ranks && near == known.near;
    std::string deep;
    if (closely || !is_same) deep = stamps_of(step, tree_stamp);
    known.next_at = begin + kRest * (Clock::now() - begin);
    if (is_same && (!closely || deep == known.deep)) return true;
    if (begin > deadline) return false;
    if (!same_ranks) known.is_told = false;
    known.near = std::move(near);
    known.deep = std::move(deep);
    known.ranks = step.ranks;
  } catch (const Error&) {
    // The source does not answer: what was found out stays.
    known.next_at = begin + kRetryAfter;
    return true;
  }
  judge(step, known);
  return true;
}

/// To open a step in its own directory takes less time where there are thousands. Only the run may
/// have what it lacks, such as a configuration.
/// @throws Error if it cannot be shown.
std::string CompleteSteps::contents_of(const StepInfo& step, bool in_run) const {
  ConversionOptions options = options_;
  if (!in_run && step.places.size() == 1) {
    options.source.path = step.places.front();
    try {
      // A file would be opened as if it were the whole of the step.
      if (path_kind(options.source.path) == PathKind::kDirectory) {
        return step_contents(Conversion::open(options));
      }
    } catch (const Error&) {
      // As it is opened in the run, it may be whole.
    }
  }
  options.source.path = options_.source.path;
  options.source.step = step.name;
  return step_contents(Conversion::open(options));
}

void CompleteSteps::judge(const StepInfo& step, Judgement& known) {
  const Clock::time_point begin = Clock::now();
  const bool was_whole = known.is_whole;
  known.is_known = false;  // until it has been found out
  try {
    known.contents = contents_of(step, known.is_doubted);
    known.is_known = known.is_whole = true;
    known.is_told = known.is_warned = false;
  } catch (const Error& error) {
    const bool is_of_step = is_of_source(error, options_.source.path);
    const bool is_outage = error.kind() == ErrorKind::kIo;
    known.contents.clear();
    known.is_whole = !is_of_step || (was_whole && is_outage);
    // Without stamps, nothing tells when the step has changed.
    known.is_known = !is_outage && !known.deep.empty();
    if (!known.is_known) known.next_at = begin + kRetryAfter;
    if (!known.is_whole) tell(step, error, known);
  }
  return_free_memory();
  known.next_at = std::max(known.next_at, Clock::now() + kRest * (Clock::now() - begin));
}

/// A step that is being written is not reported, nor a directory without a checkpoint; a checkpoint
/// that stays behind is.
void CompleteSteps::tell(const StepInfo& step, const Error& error, Judgement& known) {
  if (obstacle_.empty()) obstacle_ = "step " + step.name + ": " + error.what();
  const bool has_any = step.places.size() != 1 || is_checkpoint(step.places.front());
  const auto missing = ranks_ ? ranks_without(step, *ranks_) : std::vector<Rank>();
  if (newer_is_whole_ && has_any && !known.is_warned) {
    log_warning(LogEvent::kStepIncomplete, "step {} is not shown: {}", step.name, error.what());
  } else if (!known.is_told && !known.is_warned && !missing.empty()) {
    log_info(LogEvent::kStepIncomplete,
             "step {} is not shown yet, because {} of the source strategy {} no file of it: {}",
             step.name, rank_words(missing), missing.size() == 1 ? "has" : "have", error.what());
  } else if (!known.is_told && !known.is_warned) {
    log_info(LogEvent::kStepIncomplete, "step {} is not shown yet: {}", step.name, error.what());
  }
  known.is_told = true;
  known.is_warned = known.is_warned || (newer_is_whole_ && has_any);
}

}  // namespace reshardfs
