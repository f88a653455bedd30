// SPDX-License-Identifier: Apache-2.0
/// Sizes and names as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace reshardfs {

/// "1.5 MiB"
std::string human_bytes(std::uint64_t bytes);

/// Columns that a UTF-8 text takes on a terminal: two for a character of East Asia.
std::size_t text_width(const std::string& text);

/// `text`, or its beginning and end with "..." between them, in at most `columns`.
std::string shortened(const std::string& text, std::size_t columns);

}  // namespace reshardfs
