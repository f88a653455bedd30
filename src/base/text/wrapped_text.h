// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reshardfs {

/// A text in lines of at most `columns`, broken at blanks; a word that is longer has its own line.
std::vector<std::string> wrapped_lines(const std::string& text, std::size_t columns);

}  // namespace reshardfs
