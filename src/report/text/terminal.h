// SPDX-License-Identifier: Apache-2.0
/// What standard output can show.
#pragma once

#include <cstddef>
#include <limits>

namespace reshardfs {

/// Nothing is broken or shortened, for programs that read the output.
constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();
/// The same of lines.
constexpr std::size_t kAnyHeight = kAnyWidth;

/// Whether it is a terminal.
bool output_is_terminal();

/// The columns to stay in: of the terminal that standard output is ($COLUMNS wins, 80 if neither
/// says; at least 40), or kAnyWidth if it is no terminal.
std::size_t output_columns();

/// The lines that the terminal shows at once ($LINES wins, 24 if neither says; at least 10), or
/// kAnyHeight.
std::size_t output_lines();

/// Whether it is a terminal that takes colours, and the user has not set NO_COLOR.
bool use_colour();

/// Whether the locale's characters are UTF-8, by $LC_ALL, $LC_CTYPE or $LANG: the first that is
/// set. Their names count, as a small system has no data of any locale.
bool locale_is_utf8();

}  // namespace reshardfs
