// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/words/given.h"

namespace reshardfs {

/// Of the options that were given, those by which another command takes the same of the same
/// source, as words; without those that say what is printed, and how.
std::vector<std::string> carried_options(const Given& given, const std::string& command);

}  // namespace reshardfs
