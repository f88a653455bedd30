// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted_cipher.h"

#include <algorithm>
#include <array>

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace reshardfs {
namespace {

/// MindSpore stores 16 random bytes, but its cipher takes only the first 12 of them.
constexpr std::size_t kGcmIvBytes = 12;

void require(int result) {
  if (result != 1) throw Error(ErrorKind::kInternal, "OpenSSL cannot decrypt");
}

unsigned char* data_of(std::span<std::byte> bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
const unsigned char* data_of(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

CipherStream::CipherStream() : context_(EVP_CIPHER_CTX_new()) {
  require(context_ == nullptr ? 0 : 1);
}

CipherStream::CipherStream(const Decryption& decryption, std::span<const std::byte> iv)
    : CipherStream() {
  require(EVP_DecryptInit_ex2(context_, decryption.cipher_.get(), nullptr, nullptr, nullptr));
  if (decryption.mode_ == CipherMode::kAesGcm) {
    require(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_IVLEN, int{kGcmIvBytes}, nullptr));
  }
  require(EVP_DecryptInit_ex2(context_, nullptr, data_of(decryption.key_.bytes()), data_of(iv),
                              nullptr));
  require(EVP_CIPHER_CTX_set_padding(context_, 0));
}

// With an initialization vector of 12 bytes, GCM is the counter mode that begins at its counter
// block, and a tag (NIST SP 800-38D, 7.1). The two count alike up to kGcmLastCounter.
CipherStream::CipherStream(const Decryption& decryption, std::span<const std::byte> iv,
                           std::uint64_t offset)
    : CipherStream() {
  const std::uint64_t number = kGcmFirstCounter + offset / kCipherBlockBytes;
  require(number > kGcmLastCounter ? 0 : 1);
  std::array<std::byte, kCipherBlockBytes> counter{};
  std::copy_n(iv.begin(), kGcmIvBytes, counter.begin());
  for (std::size_t i = 0; i < kCipherBlockBytes - kGcmIvBytes; ++i) {
    counter[kCipherBlockBytes - 1 - i] = static_cast<std::byte>(number >> 8 * i);
  }
  require(EVP_DecryptInit_ex2(context_, decryption.range_cipher_.get(),
                              data_of(decryption.key_.bytes()),
                              data_of(std::as_bytes(std::span(counter))), nullptr));
  std::array<std::byte, kCipherBlockBytes> skipped{};
  decrypt(std::span(skipped).first(offset % kCipherBlockBytes));
  OPENSSL_cleanse(skipped.data(), skipped.size());
}

// The context holds the expanded key: OpenSSL overwrites it.
CipherStream::~CipherStream() {
  EVP_CIPHER_CTX_free(context_);
}

void CipherStream::decrypt(std::span<std::byte> bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // OpenSSL counts in int
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    int written = 0;
    require(EVP_DecryptUpdate(context_, data_of(part), &written, data_of(part),
                              static_cast<int>(part.size())));
    if (written != static_cast<int>(part.size())) require(0);
    bytes = bytes.subspan(part.size());
  }
}

bool CipherStream::verify(std::span<const std::byte> tag) {
  std::array<std::byte, kTagBytes> copy{};  // OpenSSL asks for bytes that it could change
  std::copy_n(tag.begin(), kTagBytes, copy.begin());
  require(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, int{kTagBytes}, copy.data()));
  std::array<unsigned char, kCipherBlockBytes> nothing{};
  int written = 0;
  return EVP_DecryptFinal_ex(context_, nothing.data(), &written) == 1;
}

}  // namespace reshardfs
