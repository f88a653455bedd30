// SPDX-License-Identifier: Apache-2.0
/// Wrong words, and the line that answers each: what is wrong, and what to write.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/words/given.h"

namespace reshardfs {

/// @param above the parent command: "" or "strategy".
/// @param words all that were given. @param place of the wrong one among them.
[[noreturn]] void refuse_command(const std::string& above, const std::vector<std::string>& words,
                                 std::size_t place);
[[noreturn]] void refuse_missing_command(const Command& command);
/// @param name with its dashes.
/// @param words all of the command's.
[[noreturn]] void refuse_long_option(const Given& given, const std::string& name,
                                     const std::vector<std::string>& words);
/// @param word the letters are in, of which one is unknown.
[[noreturn]] void refuse_letter(const Given& given, const std::string& word, char letter);
/// @param word as the option was written. @param next the option that stands in the value's place.
[[noreturn]] void refuse_missing_value(const Given& given, const std::string& word,
                                       const Option& option, const std::string& next);

/// "reshardfs mount SOURCE MOUNTPOINT"
std::string usage_of(const Given& given);

}  // namespace reshardfs
