// SPDX-License-Identifier: Apache-2.0
#include "format/utf8.h"

#include <cstddef>

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

bool is_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (byte(i) < 0x80) continue;
    const Sequence rest = sequence_after(byte(i));
    if (rest.continuation == 0 || rest.continuation >= text.size() - i) return false;
    if (byte(i + 1) < rest.low || byte(i + 1) > rest.high) return false;
    for (std::size_t k = 2; k <= rest.continuation; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    i += rest.continuation;
  }
  return true;
}

}  // namespace reshardfs
