// SPDX-License-Identifier: Apache-2.0
/// Which steps of a source a mount of all steps shows.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "reshardfs/conversion.h"
#include "reshardfs/error.h"

#include "checkpoint/series/steps.h"
#include "conversion/strategy_input.h"
#include "vfs/step_tree.h"

namespace reshardfs {

/// A step is shown once it opens whole, with the options of the mount, as a mount of it alone does:
/// nothing lacks according to names, tables, headers and sizes. Where the source strategy says how
/// many ranks there are, a step that lacks some of them is shown only if what is there suffices for
/// everything that the mount shows. Where an option is wrong in itself, the step's directory says
/// so.
///
/// A step is opened again only after its files have changed. The newest steps, those that are open
/// and those that lack something are examined file by file, the others by the time of their
/// directory; what takes long is done less often.
class CompleteSteps {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param options its step does not matter.
  /// @param ranks those of the source strategy, if there is one.
  CompleteSteps(ConversionOptions options, std::optional<RankRange> ranks);

  /// Takes steps for whole that another process has shown, until they have been opened here.
  void trust(const std::vector<std::string>& names);

  /// Opens, from the newest step to the oldest, those that are not known, as long as there is time.
  /// For one thread at a time.
  /// @param open the steps that the mount has open.
  /// @throws Error as find_steps().
  StepTree::Listing list(const std::set<std::string>& open);

  /// A step could not be opened: look at it again. Any thread may call it.
  void doubt(const std::string& step);

  /// Why the newest step of the last list() that is not shown is not; empty: all are shown.
  const std::string& obstacle() const noexcept { return obstacle_; }

 private:
  struct Judgement {
    bool is_known = false;
    bool is_whole = false;
    std::vector<Rank> ranks{};  ///< that had the step then
    std::string near{};         ///< the stamps of its directories
    std::string deep{};         ///< the stamps of all that they have
    std::string contents{};
    Clock::time_point next_at{};
    bool is_doubted = false;  ///< a program could not open it
    bool is_told = false;     ///< that it lacks something, for these ranks
    bool is_warned = false;   ///< the same, when a newer step was whole
  };
  using Judgements = std::unordered_map<std::string, Judgement>;

  bool look_at(const StepInfo& step, bool closely, Clock::time_point deadline, Judgement& known);
  std::string contents_of(const StepInfo& step, bool in_run) const;
  void judge(const StepInfo& step, Judgement& known);
  void tell(const StepInfo& step, const Error& error, Judgement& known);

  ConversionOptions options_;
  std::optional<RankRange> ranks_;
  Judgements judged_;
  bool newer_is_whole_ = false;  ///< than the step that is looked at
  std::string obstacle_;
  std::string resume_at_;  ///< the step at which the time was over

  std::mutex mutex_;
  std::set<std::string> doubted_;  ///< guarded by mutex_
};

/// What tells the files of a step that was opened from others.
std::string step_contents(const Conversion& conversion);

/// See chosen_series(). @throws Error as find_steps().
std::string series_of(const ConversionOptions& options);

/// All steps, complete or not.
std::vector<StepInfo> steps_of(const ConversionOptions& options);

}  // namespace reshardfs
