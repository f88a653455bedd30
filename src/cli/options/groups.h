// SPDX-License-Identifier: Apache-2.0
/// The rows of the table of options, one function for each title of --help.
#pragma once

#include <string>
#include <vector>

#include "cli/options/option.h"

namespace reshardfs {

std::vector<Option> source_group();
std::vector<Option> target_group();
std::vector<Option> map_group();
std::vector<Option> shown_group();
/// @param side 'a' or 'b': every name begins with it.
std::vector<Option> side_group(char side);
std::vector<Option> comparison_group();
std::vector<Option> mount_group();
std::vector<Option> speed_group();
std::vector<Option> server_group();
std::vector<Option> log_group();
/// Those that belong to single commands, and those that belong to all.
std::vector<Option> other_group();

}  // namespace reshardfs
