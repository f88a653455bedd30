// SPDX-License-Identifier: Apache-2.0
#include "cache/checksum.h"

#include <array>
#include <cstring>
#include <new>

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

namespace {

void write_digits(XXH128_hash_t hash, std::span<char, 32> digits) noexcept {
  constexpr const char* kDigits = "0123456789abcdef";
  constexpr unsigned kDigitBits = 4;
  constexpr unsigned kLowDigit = 0xf;
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const unsigned byte = canonical.digest[i / 2];
    digits[i] = kDigits[byte >> kDigitBits];
    digits[i + 1] = kDigits[byte & kLowDigit];
  }
}

}  // namespace

void hex_hash(Bytes bytes, std::span<char, 32> digits) noexcept {
  write_digits(XXH3_128bits(bytes.data(), bytes.size()), digits);
}

void LongChecksum::Free::operator()(XXH3_state_s* state) const noexcept {
  XXH3_freeState(state);
}

LongChecksum::LongChecksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void LongChecksum::update(Bytes bytes) noexcept {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string LongChecksum::finish() {
  std::array<char, 32> digits{};
  write_digits(XXH3_128bits_digest(state_.get()), digits);
  return {digits.data(), digits.size()};
}

}  // namespace reshardfs
