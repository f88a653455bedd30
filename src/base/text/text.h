// SPDX-License-Identifier: Apache-2.0
/// Sizes, names, counts and times as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// "1.5 MiB"
std::string human_bytes(std::uint64_t bytes);

/// Columns that a UTF-8 text takes on a terminal: two for a character of East Asia.
std::size_t text_width(const std::string& text);

/// `text`, or its beginning and end with "..." between them, in at most `columns`.
std::string shortened(const std::string& text, std::size_t columns);

/// "'a', 'b', 'c', 'd', 'e' and 7 more": names for a message, cut short.
std::string name_list(const std::vector<std::string>& names, std::size_t shown = 5);

/// "1 dimension", "3 dimensions".
std::string counted(std::size_t count, const std::string& singular);

/// The time now, as "2026-01-31T09:05:00Z".
std::string utc_now();

/// A text in lines of at most `columns`, broken at blanks; a word that is longer has its own line.
std::vector<std::string> wrapped_lines(const std::string& text, std::size_t columns);

/// "2026-01-31T09:05:00Z"
/// @param ns nanoseconds since the epoch.
std::string utc_time(std::int64_t ns);

}  // namespace reshardfs
