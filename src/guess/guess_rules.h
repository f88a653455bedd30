// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "guess/guess.h"

namespace reshardfs {

/// Rules have one device matrix for all parameters. States what is proven by an optimizer cut where
/// that takes no further axes, and takes for open what fits in no other way.
void fit_into_one_matrix(Guess& guess);

/// The text of a rules file. Proven layouts become rules. For a parameter with several possible
/// layouts it has each possible rule, commented out, if one device matrix has its axes, followed by
/// a rule that refuses the parameter until the user decides. A parameter whose layout is open gets
/// only that last rule.
/// @param header lines for the beginning, without "# ".
/// @throws Error kUnsupported if no device matrix has the axes of all proven layouts.
std::string guess_rules(const Guess& guess, const std::vector<std::string>& header);

/// The questions that are left, one line each.
std::vector<std::string> open_questions(const Guess& guess);

}  // namespace reshardfs
