// SPDX-License-Identifier: Apache-2.0
/// What is checked of a command line before CLI11 parses it, to answer with what was meant.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace reshardfs {

/// "help mount" as "mount --help", "help" as "--help"; other command lines as they are.
std::vector<std::string> expand_help(std::vector<std::string> words);

/// Checks that the words name a command, all the way down, and that it has the options that they
/// give, with a value each where one is needed. What else may be wrong is left to CLI11.
/// @throws Error kUsage with the nearest name, or with those that exist.
void check_command_words(const CLI::App& app, const std::vector<std::string>& words);

/// The command that the words name, as far as they do: "reshardfs strategy show".
std::string command_line_name(const CLI::App& app);

/// The names of the commands directly below one.
std::vector<std::string> command_names(const CLI::App& command);

}  // namespace reshardfs
