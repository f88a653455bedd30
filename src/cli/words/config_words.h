// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/words/given.h"

namespace reshardfs {

/// What a configuration file may have as keys: the long names of the options of all commands.
std::vector<std::string> names_of_all_options();

/// The log level that a configuration file has now; empty: none. Throws what reading it throws.
using LogLevelSource = std::function<std::string()>;

/// Adds what the file of --config says, if there is one. Every key is a long option, its value the
/// option's; a list gives the option several times, true a flag. Those that the command does not
/// have are passed over if another command has them. They stand before the command line's, which
/// therefore wins. If the first argument is the name of a table [mount.NAME], that table's keys
/// hold, and its source and mount point stand in for the arguments SOURCE and MOUNTPOINT.
/// @return nothing if there is no file, or the command line has said the level.
/// @throws Error kUsage naming the file, line and key.
LogLevelSource add_config_words(Given& given);

}  // namespace reshardfs
