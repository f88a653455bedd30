// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace reshardfs {

using Bytes = std::span<const std::byte>;

/// XXH3 with 64 bits, as fast as this processor can: some 50 GB/s with wide vectors.
std::uint64_t checksum(Bytes bytes) noexcept;

/// Of slices, as if they were one.
std::uint64_t checksum(std::span<const Bytes> slices) noexcept;

/// XXH3 with 128 bits in hexadecimal digits, for names.
void hex_hash(Bytes bytes, std::span<char, 32> digits) noexcept;

/// A running XXH3 with 128 bits.
class LongChecksum {
 public:
  LongChecksum();
  LongChecksum(const LongChecksum&) = delete;
  LongChecksum& operator=(const LongChecksum&) = delete;
  ~LongChecksum() = default;

  void update(Bytes bytes) noexcept;
  /// Lower-case hexadecimal; call once, at the end.
  std::string finish();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace reshardfs
