// SPDX-License-Identifier: Apache-2.0
/// All commands and options. Both tables are made when they are first used, and stay.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/engine.h"
#include "cli/options/option.h"

namespace reshardfs {

/// In the order of --help.
const std::vector<Command>& all_commands();
const std::vector<OptionGroup>& all_options();

/// The program itself, where no command is named.
const Command& program_command();
/// reshardfs.open() of the Python module, which messages call "mount".
RESHARDFS_ENGINE const Command& python_command();

/// nullptr: there is none.
RESHARDFS_ENGINE const Command* find_command(std::string_view name);
/// The last words of the commands below one: of "strategy", "show", "merge" and so on. Of the
/// program, where the name is empty, all first words.
std::vector<std::string> commands_below(std::string_view name);

/// What a command has of a group.
struct GroupOfCommand {
  std::string title;
  std::vector<const Option*> options;
};

/// The groups in which a command has options, in the order of the table.
std::vector<GroupOfCommand> groups_of(const Command& command);
/// In the order of the table.
std::vector<const Option*> options_of(const Command& command);
/// By its long name. nullptr: the command does not have it.
const Option* find_option(const Command& command, std::string_view name);
const Option* find_option(const Command& command, char letter);

}  // namespace reshardfs
