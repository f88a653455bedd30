// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/utf8.h"

namespace reshardfs {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};
/// Scripts of East Asia and pictures, which take two columns.
constexpr std::array<Range, 13> kWide{{{0x1100, 0x115f},
                                       {0x2e80, 0x303e},
                                       {0x3041, 0x33ff},
                                       {0x3400, 0x4dbf},
                                       {0x4e00, 0xa4cf},
                                       {0xa960, 0xa97f},
                                       {0xac00, 0xd7a3},
                                       {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f},
                                       {0xff00, 0xff60},
                                       {0xffe0, 0xffe6},
                                       {0x1f300, 0x1faff},
                                       {0x20000, 0x3fffd}}};
/// Marks on the character before them.
constexpr std::array<Range, 5> kMarks{
    {{0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};

template <typename Ranges>
bool is_among(char32_t character, const Ranges& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

struct Character {
  std::size_t bytes = 1;
  std::size_t columns = 1;
};

/// What is no UTF-8 counts byte by byte.
Character character_at(std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text, at);
  if (length < 2) return {};
  constexpr std::array<unsigned, 5> kFirstBits{0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t character = static_cast<unsigned char>(text[at]) & kFirstBits.at(length);
  for (std::size_t i = 1; i < length; ++i) {
    character = character << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
  }
  if (is_among(character, kMarks)) return {length, 0};
  return {length, is_among(character, kWide) ? std::size_t{2} : std::size_t{1}};
}

/// Bytes of the longest beginning that takes at most `columns`.
std::size_t fitting_bytes(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t used = 0; at < text.size();) {
    const Character character = character_at(text, at);
    used += character.columns;
    if (used > columns) break;
    at += character.bytes;
  }
  return at;
}

}  // namespace

std::size_t text_width(const std::string& text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    width += character.columns;
    at += character.bytes;
  }
  return width;
}

std::string shortened(const std::string& text, std::size_t columns) {
  constexpr std::size_t kEllipsis = 3;
  const std::size_t width = text_width(text);
  if (width <= columns || columns <= kEllipsis) return text;
  // The end says more: layers of a model begin alike.
  const std::size_t tail = (columns - kEllipsis + 1) / 2;
  const std::size_t head = columns - kEllipsis - tail;
  std::size_t last = 0;
  for (std::size_t left = width; left > tail;) {
    const Character character = character_at(text, last);
    left -= character.columns;
    last += character.bytes;
  }
  return text.substr(0, fitting_bytes(text, head)) + "..." + text.substr(last);
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

}  // namespace reshardfs
