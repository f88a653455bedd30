// SPDX-License-Identifier: Apache-2.0
/// The rows of the table of options, one function for each title of --help. What single commands
/// have for themselves comes first there, and what many share follows.
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
/// Those that belong to single commands.
std::vector<Option> own_group();
/// Those that nearly all commands have.
std::vector<Option> general_group();

}  // namespace reshardfs
