// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reshardfs {

/// The first word of a command line by which completions ask the program. It is for these alone, so
/// that no --help lists it.
inline constexpr const char* kCompleteCommand = "__complete";

/// Prints names that may stand on a command line, one a line; at most 20,000, and none that a line
/// of a shell cannot hold.
/// @param words what is asked for, and what it depends on:
///        `param WORD...`: parameters of the first of these words that is a checkpoint or a
///        strategy; `mount FILE.toml`: the mounts that the file names; `options`: all commands and
///        options, as JSON.
/// @returns an exit code: 0, also where there are none.
int run_complete(const std::vector<std::string>& words);

}  // namespace reshardfs
