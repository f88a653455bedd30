// SPDX-License-Identifier: Apache-2.0
/// The one walk over a command line.
#pragma once

#include <string>
#include <vector>

#include "cli/words/given.h"

namespace reshardfs {

/// Finds the command and takes its options and arguments apart. -o, the list of mount options that
/// mount(8) and fstab(5) know, becomes options here: a word of it that is a long option of the
/// command stands for that option, any other is a --fuse-option. `help COMMAND` is COMMAND -h.
/// Where --help is given, what is wrong elsewhere does not matter.
/// Values are taken as they stand: see check_given().
/// @throws Error kUsage for commands and options that there are not, and options without a value.
Given read_words(const std::vector<std::string>& words);

/// The same of the words behind a command.
Given read_words_of(const Command& command, const std::vector<std::string>& words);

}  // namespace reshardfs
