// SPDX-License-Identifier: Apache-2.0
#include "daemon/complete_steps.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "checkpoint/series/series.h"
#include "conversion/source_opening.h"
#include "fuse/event_log.h"

namespace reshardfs {

std::vector<StepInfo> steps_of(const ConversionOptions& options) {
  return find_steps(options.source.path, set_options(options.source));
}

std::string series_of(const ConversionOptions& options) {
  return chosen_series(options.source.path, set_options(options.source));
}

CompleteSteps::CompleteSteps(ConversionOptions options, std::optional<RankRange> ranks)
    : options_(std::move(options)), ranks_(ranks) {
  options_.check_replicas = false;  // checked when a program opens the step
}

std::vector<std::string> CompleteSteps::names() {
  std::vector<std::string> names;
  std::map<std::string, Judgement> before = std::exchange(judged_, {});
  for (const StepInfo& step : steps_of(options_)) {
    if (!step.complete) continue;
    if (!ranks_) {
      names.push_back(step.name);
      continue;
    }
    const auto missing = ranks_without(step, *ranks_);
    if (!missing.empty()) {
      const auto known = before.find(step.name);
      const bool is_known = known != before.end() && known->second.ranks == step.ranks;
      const bool enough = is_known ? known->second.suffices : suffices(step.name, missing);
      judged_[step.name] = {step.ranks, enough};
      if (!enough) continue;
    }
    names.push_back(step.name);
  }
  return names;
}

/// Whether a step without these ranks can be shown whole. If it is damaged it can: its directory
/// then says so.
bool CompleteSteps::suffices(const std::string& step, const std::vector<Rank>& missing) {
  options_.source.step = step;
  try {
    const Conversion conversion = Conversion::open(options_);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMissing) return true;
    log_info(LogEvent::kStepIncomplete,
             "step {} is not shown yet, because {} of the source strategy {} no file of it: {}",
             step, rank_words(missing), missing.size() == 1 ? "has" : "have", error.what());
    return false;
  }
}

}  // namespace reshardfs
