// SPDX-License-Identifier: Apache-2.0
#include "base/text/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <utf8proc.h>

namespace reshardfs {
namespace {

constexpr std::size_t kLongest = 4;

utf8proc_int32_t code_point(char32_t character) noexcept {
  return static_cast<utf8proc_int32_t>(character);
}

/// How many bytes at the beginning are ASCII: all, or a multiple of eight.
std::size_t ascii_bytes(std::string_view text) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  std::size_t at = 0;
  std::uint64_t word = 0;
  for (; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & kHighBits) != 0) return at;
  }
  word = 0;
  std::memcpy(&word, text.data() + at, text.size() - at);
  return (word & kHighBits) != 0 ? at : text.size();
}

}  // namespace

Utf8Character utf8_character(std::string_view text, std::size_t at) noexcept {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {1, first};  // nearly always
  std::array<utf8proc_uint8_t, kLongest> bytes{};
  const std::size_t count = text.copy(reinterpret_cast<char*>(bytes.data()), kLongest, at);
  utf8proc_int32_t number = 0;
  const utf8proc_ssize_t used =
      utf8proc_iterate(bytes.data(), static_cast<utf8proc_ssize_t>(count), &number);
  if (used <= 0) return {};
  return {static_cast<std::size_t>(used), static_cast<char32_t>(number)};
}

bool is_utf8(std::string_view text) noexcept {
  // Names are ASCII nearly always; from the first bytes on that are not, one looks closely.
  for (std::size_t at = ascii_bytes(text); at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool append_utf8(std::string& text, char32_t character) {
  if (character > 0x10ffff || !utf8proc_codepoint_valid(code_point(character))) return false;
  std::array<utf8proc_uint8_t, kLongest> bytes{};
  const utf8proc_ssize_t used = utf8proc_encode_char(code_point(character), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(used));
  return true;
}

std::size_t columns_of(char32_t character) noexcept {
  return static_cast<std::size_t>(std::max(0, utf8proc_charwidth(code_point(character))));
}

bool is_control(char32_t character) noexcept {
  if (character < 0x80) return character < 0x20 || character == 0x7f;
  return utf8proc_category(code_point(character)) == UTF8PROC_CATEGORY_CC;
}

bool is_printable(char32_t character) noexcept {
  if (character < 0x80) return character >= 0x20 && character != 0x7f;
  switch (utf8proc_category(code_point(character))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_layout_control(char32_t character) noexcept {
  if (character < 0x80) return false;
  const utf8proc_property_t& property = *utf8proc_get_property(code_point(character));
  if (property.category == UTF8PROC_CATEGORY_ZL || property.category == UTF8PROC_CATEGORY_ZP) {
    return true;
  }
  switch (property.bidi_class) {
    case UTF8PROC_BIDI_CLASS_LRE:
    case UTF8PROC_BIDI_CLASS_LRO:
    case UTF8PROC_BIDI_CLASS_RLE:
    case UTF8PROC_BIDI_CLASS_RLO:
    case UTF8PROC_BIDI_CLASS_PDF:
    case UTF8PROC_BIDI_CLASS_LRI:
    case UTF8PROC_BIDI_CLASS_RLI:
    case UTF8PROC_BIDI_CLASS_FSI:
    case UTF8PROC_BIDI_CLASS_PDI:
      return true;
    default:
      return false;
  }
}

}  // namespace reshardfs
