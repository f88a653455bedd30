// SPDX-License-Identifier: Apache-2.0
/// Rules for sizes, with blanks where it is not stated how parameters are cut.
#pragma once

#include <string>
#include <vector>

#include "reshardfs/shape.h"

#include "strategy/derive/sized_strategy.h"

namespace reshardfs {

struct DraftedParameter {
  SizedParameter parameter{};  ///< `stages` is empty if they are not known
  Shape shape{};
  std::string unknown_cut{};    ///< why it is not known; empty: it is
  std::string unknown_stage{};  ///< why it is not known; empty: it is

  bool is_known() const { return unknown_cut.empty() && unknown_stage.empty(); }
};

struct RulesDraft {
  std::string text{};
  std::size_t blanks = 0;  ///< rules to complete
};

/// A file of rules that states what is known. A rule with a blank refuses its parameters until
/// somebody fills it in: in front of `undecided` it lists the keys that may hold, commented out.
/// There is one for each kind of name; states of optimizers are of the kind of their weight.
/// @param header lines for the beginning, without "# ".
RulesDraft draft_rules(const ParallelSizes& sizes, const std::vector<DraftedParameter>& parameters,
                       const std::vector<std::string>& header);

}  // namespace reshardfs
