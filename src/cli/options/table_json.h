// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reshardfs {

/// The table, for programs that make completions, signatures and manual pages of it: a list of
/// commands, the program itself first, each with "name", "title", "summary", "footer", "arguments"
/// and "options".
std::string table_json_text();

}  // namespace reshardfs
