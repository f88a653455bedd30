// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/sha256.h"
#include "cache/checksum.h"

namespace reshardfs {

/// Which sums of a file are wanted, as bits.
enum class SumKinds : std::uint8_t {
  kNone = 0,
  kXxh3 = 1,    ///< tells files apart, at the speed of memory
  kSha256 = 2,  ///< what sha256sum(1) prints; a processor computes some 1.2 GiB/s
  kBoth = 3,
};

constexpr SumKinds operator|(SumKinds a, SumKinds b) noexcept {
  return static_cast<SumKinds>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// Of all bytes of a file, in lower-case hexadecimal digits; empty: not wanted, or not known.
struct ContentSums {
  std::string sha256{};
  std::string xxh3{};  ///< XXH3 with 128 bits
};

/// Running sums of a file's bytes.
class ContentHash {
 public:
  explicit ContentHash(SumKinds kinds);
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Call once, at the end.
  ContentSums finish();

 private:
  std::optional<Sha256> sha256_;
  std::optional<LongChecksum> xxh3_;
};

}  // namespace reshardfs
