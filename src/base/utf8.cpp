// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <algorithm>

namespace reshardfs {
namespace {

/// What may follow a first byte: how many continuation bytes, and the range of the first of them
/// (it alone rules out overlong forms, surrogates and numbers above U+10FFFF).
struct Sequence {
  std::size_t continuation;
  unsigned char low;
  unsigned char high;
};

/// @return continuation 0 if `first` cannot begin a sequence of several bytes.
Sequence sequence_after(unsigned char first) noexcept {
  if (first >= 0xc2 && first <= 0xdf) return {1, 0x80, 0xbf};
  if (first == 0xe0) return {2, 0xa0, 0xbf};
  if (first == 0xed) return {2, 0x80, 0x9f};
  if (first >= 0xe1 && first <= 0xef) return {2, 0x80, 0xbf};
  if (first == 0xf0) return {3, 0x90, 0xbf};
  if (first >= 0xf1 && first <= 0xf3) return {3, 0x80, 0xbf};
  if (first == 0xf4) return {3, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) < 0x80) return 1;
  const Sequence rest = sequence_after(byte(at));
  if (rest.continuation == 0 || rest.continuation >= text.size() - at) return 0;
  if (byte(at + 1) < rest.low || byte(at + 1) > rest.high) return 0;
  for (std::size_t k = 2; k <= rest.continuation; ++k) {
    if ((byte(at + k) & 0xc0U) != 0x80) return 0;
  }
  return rest.continuation + 1;
}

bool is_utf8(std::string_view text) noexcept {
  const auto beyond_ascii = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  // Names are ASCII nearly always; from the first byte on that is not, one looks closely.
  const auto first = std::find_if(text.begin(), text.end(), beyond_ascii);
  for (auto at = static_cast<std::size_t>(first - text.begin()); at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool append_utf8(std::string& text, char32_t character) {
  const bool surrogate = character >= 0xd800 && character <= 0xdfff;
  if (surrogate || character > 0x10ffff) return false;
  const auto tail = [&](unsigned shift) {
    text += static_cast<char>(0x80U | (character >> shift & 0x3fU));
  };
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xc0U | character >> 6U);
    tail(0);
  } else if (character < 0x10000) {
    text += static_cast<char>(0xe0U | character >> 12U);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0U | character >> 18U);
    tail(12);
    tail(6);
    tail(0);
  }
  return true;
}

}  // namespace reshardfs
