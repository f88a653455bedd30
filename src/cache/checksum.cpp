// SPDX-License-Identifier: Apache-2.0
#include "cache/checksum.h"

#include <cstring>

// For the definition of XXH3_state_t, so that it needs no memory of its own.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#ifdef RESHARDFS_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>
#endif

namespace reshardfs {

std::uint64_t checksum(Bytes bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::span<const Bytes> slices) noexcept {
  if (slices.size() == 1) return checksum(slices.front());
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  for (const Bytes slice : slices) XXH3_64bits_update(&state, slice.data(), slice.size());
  return XXH3_64bits_digest(&state);
}

void hex_hash(Bytes bytes, std::span<char, 32> digits) noexcept {
  constexpr const char* kDigits = "0123456789abcdef";
  constexpr unsigned kDigitBits = 4;
  constexpr unsigned kLowDigit = 0xf;
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(bytes.data(), bytes.size()));
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const unsigned byte = hash.digest[i / 2];
    digits[i] = kDigits[byte >> kDigitBits];
    digits[i + 1] = kDigits[byte & kLowDigit];
  }
}

}  // namespace reshardfs
