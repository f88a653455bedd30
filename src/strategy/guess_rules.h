// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "strategy/guess.h"

namespace reshardfs {

/// A file of rules: what is proven as rules, what is likely or open as rules that are commented
/// out, in front of one that refuses the parameter.
/// @param header lines for the beginning, without "# ".
/// @throws Error kUnsupported if no device matrix has the axes of all proven layouts.
std::string guess_rules(const Guess& guess, const std::vector<std::string>& header);

/// The questions that are left, one line each.
std::vector<std::string> open_questions(const Guess& guess);

}  // namespace reshardfs
