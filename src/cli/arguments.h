// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace reshardfs {

/// Rewrites a command line before it is parsed, so that three ways to give an option become one:
///  - `--config FILE.toml`: every key is a long option of the command, its value the option's; a
///    list gives the option several times, true a flag. They are put in front, so that the command
///    line wins.
///  - `-o key=value,word`: as mount(8) passes them. A key or word that is a long option of the
///    command becomes that option; words for the kernel and FUSE become `--fuse-option WORD`.
/// @throws Error kUsage naming the file, line and key.
std::vector<std::string> expand_arguments(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace reshardfs
