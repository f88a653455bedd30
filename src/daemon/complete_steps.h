// SPDX-License-Identifier: Apache-2.0
/// Which steps of a source a mount of all steps shows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "checkpoint/series/steps.h"
#include "conversion/strategy_input.h"

namespace reshardfs {

/// A step is shown when all ranks that have any step have it (see StepInfo::complete). A job's
/// first step would fulfil that as soon as one rank has written it; where the source strategy says
/// how many ranks there are, a step that lacks some of them is shown only if what is there suffices
/// for everything that the mount shows: the source is then that of one node, or the rest is
/// replicas.
class CompleteSteps {
 public:
  /// @param options its step does not matter.
  /// @param ranks those of the source strategy, if there is one.
  CompleteSteps(ConversionOptions options, std::optional<RankRange> ranks);

  /// Their names, oldest first. Opens steps that lack ranks, once for each set of ranks. For one
  /// thread at a time.
  /// @throws Error as find_steps().
  std::vector<std::string> names();

 private:
  bool suffices(const std::string& step, const std::vector<Rank>& missing);

  ConversionOptions options_;
  std::optional<RankRange> ranks_;
  struct Judgement {
    std::vector<Rank> ranks;  ///< that had the step then
    bool suffices = false;
  };
  std::map<std::string, Judgement> judged_;
};

/// See chosen_series(). @throws Error as find_steps().
std::string series_of(const ConversionOptions& options);

/// All steps, complete or not.
std::vector<StepInfo> steps_of(const ConversionOptions& options);

}  // namespace reshardfs
