// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reshardfs {

/// The table, for programs that make completions, signatures and lists of it: a list of commands,
/// the program itself first, each with "name", "title", "summary", "arguments" and "options".
std::string table_json_text();

}  // namespace reshardfs
