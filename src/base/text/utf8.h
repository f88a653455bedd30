// SPDX-License-Identifier: Apache-2.0
/// What Unicode says of characters, as libutf8proc has it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reshardfs {

struct Utf8Character {
  std::size_t bytes = 0;  ///< 0: no well-formed sequence
  char32_t number = 0;
};

/// The character that begins at text[at]: no overlong forms, no surrogates, nothing above U+10FFFF.
/// `at` is inside `text`.
Utf8Character utf8_character(std::string_view text, std::size_t at) noexcept;

/// Its bytes alone.
inline std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  return utf8_character(text, at).bytes;
}

/// Whether the whole of `text` is well-formed UTF-8.
bool is_utf8(std::string_view text) noexcept;

/// Appends a character. @return false, and appends nothing, if it is a surrogate or above U+10FFFF.
bool append_utf8(std::string& text, char32_t character);

/// Columns that it takes on a terminal: two for those of East Asia and pictures, none for marks on
/// the character before.
std::size_t columns_of(char32_t character) noexcept;

/// Whether a byte is one of ASCII's control characters.
constexpr bool is_control_byte(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// Whether it is a control character: it moves a terminal's cursor as ESC does, or deletes.
bool is_control(char32_t character) noexcept;

/// Whether it shows as itself: no control, format or unassigned character, and no space but ' '.
/// What Python's str.isprintable() has of one.
bool is_printable(char32_t character) noexcept;

/// Whether it ends a line, or turns the direction of all that follows.
bool is_layout_control(char32_t character) noexcept;

}  // namespace reshardfs
