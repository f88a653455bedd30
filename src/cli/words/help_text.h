// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "cli/options/option.h"

namespace reshardfs {

/// The text of --help: options in groups, one line of usage, and everything wrapped.
///
/// Programs read it too: completions and the check of the manual (packaging/program_help.py). An
/// option's default follows its description as "[default: ...]", and the words that its argument
/// does not name as "[possible values: ...]".
/// @param columns of a line.
std::string help_text(const Command& command, std::size_t columns);

/// The text of -h: usage, the usual options in a line or two each, and examples, in 24 lines. The
/// same as help_text() for commands with few options.
std::string brief_help_text(const Command& command, std::size_t columns);

/// For standard output as it is: its columns, or 80 where it is not a terminal.
std::size_t help_columns();

}  // namespace reshardfs
