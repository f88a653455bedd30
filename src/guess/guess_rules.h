// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "guess/guess.h"

namespace reshardfs {

/// Rules have one device matrix for all parameters. States what is proven by an optimizer cut where
/// that takes no further axes, and takes for open what fits in no other way.
void fit_into_one_matrix(Guess& guess);

/// A file of rules: what is proven as rules. Of what is one of several each rule that may be right,
/// commented out, as far as one device matrix has its axes, in front of one that refuses the
/// parameter until somebody decides; of what is open only that one.
/// @param header lines for the beginning, without "# ".
/// @throws Error kUnsupported if no device matrix has the axes of all proven layouts.
std::string guess_rules(const Guess& guess, const std::vector<std::string>& header);

/// The questions that are left, one line each.
std::vector<std::string> open_questions(const Guess& guess);

}  // namespace reshardfs
