// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace reshardfs {

/// Whether options of this process are those of a file, which may serve several commands.
bool has_options_file() noexcept;

struct ExpandedArguments {
  std::vector<std::string> words;
  /// The log level that the configuration file has now; empty: none. Not set if there is no file,
  /// or if the command line has said the level. Throws what reading the file throws.
  std::function<std::string()> reread_log_level;
};

/// Rewrites a command line before it is parsed, so that three ways to give an option become one:
///  - `--config FILE.toml`: every key is a long option, its value the option's; a list gives the
///    option several times, true a flag. Those that the command does not have are passed over if
///    another command has them. They are put in front, so that the command line wins. If the first
///    argument is the name of a table [mount.NAME], that table's keys hold, and its source and
///    mount point stand in for the arguments SOURCE and MOUNTPOINT.
///  - `-o key=value,word`: as mount(8) passes them. A key or word that is a long option of the
///    command becomes that option; words for the kernel and FUSE become `--fuse-option WORD`.
/// @throws Error kUsage naming the file, line and key.
ExpandedArguments expand_arguments(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace reshardfs
