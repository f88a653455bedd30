// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace reshardfs {

/// Memory for keys and decrypted bytes: zero at first, overwritten before it is given back, and
/// left out of core dumps where the system allows it.
class SecretBuffer {
 public:
  enum class Swap : bool {
    kAllowed,
    kAvoided,  ///< locked in memory, as far as the process's limit allows; for small buffers
  };

  /// @throws std::bad_alloc.
  SecretBuffer(std::size_t bytes, Swap swap);
  SecretBuffer(SecretBuffer&& other) noexcept;
  SecretBuffer& operator=(SecretBuffer&&) = delete;
  SecretBuffer(const SecretBuffer&) = delete;
  SecretBuffer& operator=(const SecretBuffer&) = delete;
  ~SecretBuffer();

  std::span<std::byte> bytes() noexcept { return {data_, size_}; }
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  /// Overwrites what is beyond the first `bytes` bytes and forgets it.
  void shrink(std::size_t bytes) noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace reshardfs
