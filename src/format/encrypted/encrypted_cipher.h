// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "format/encrypted/encrypted.h"

using EVP_CIPHER_CTX = struct evp_cipher_ctx_st;

namespace reshardfs {

inline constexpr std::size_t kCipherBlockBytes = 16;  ///< of AES and SM4
inline constexpr std::size_t kIvBytes = 16;
inline constexpr std::size_t kTagBytes = 16;
/// What the counter of AES-GCM has room for; kGcmFirstCounter belongs to the first bytes, and 1 to
/// the tag.
inline constexpr std::uint64_t kGcmFirstCounter = 2;
inline constexpr std::uint64_t kGcmLastCounter = 0xffff'ffff;

/// Decrypts one run of bytes, in place and in order. For one thread.
class CipherStream {
 public:
  /// @param iv kIvBytes: a block's, or with CBC the 16 cipher bytes before those to decrypt.
  CipherStream(const Decryption& decryption, std::span<const std::byte> iv);
  /// AES-GCM only: begins at byte `offset` of what was encrypted with `iv`, and cannot verify().
  CipherStream(const Decryption& decryption, std::span<const std::byte> iv, std::uint64_t offset);
  CipherStream(const CipherStream&) = delete;
  CipherStream& operator=(const CipherStream&) = delete;
  ~CipherStream();

  /// The next bytes; with CBC a multiple of kCipherBlockBytes. Padding is left in place.
  void decrypt(std::span<std::byte> bytes);
  /// AES-GCM only, after the last byte: whether all bytes are those that were encrypted.
  bool verify(std::span<const std::byte> tag);

 private:
  CipherStream();

  EVP_CIPHER_CTX* context_;
};

}  // namespace reshardfs
