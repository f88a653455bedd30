// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reshardfs {

/// Bytes of the well-formed UTF-8 sequence that begins at text[at], or 0 if there is none: no
/// overlong forms, no surrogates, nothing above U+10FFFF. `at` is inside `text`.
std::size_t utf8_length(std::string_view text, std::size_t at) noexcept;

/// Whether the whole of `text` is well-formed UTF-8.
bool is_utf8(std::string_view text) noexcept;

/// Appends a character. @return false, and appends nothing, if it is a surrogate or above U+10FFFF.
bool append_utf8(std::string& text, char32_t character);

}  // namespace reshardfs
