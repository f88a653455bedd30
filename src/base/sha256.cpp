// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

void require(int result) {
  if (result != 1) throw Error(ErrorKind::kInternal, "SHA-256 failed");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  require(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr));
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context_);
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_, bytes.data(), bytes.size()));
}

std::array<unsigned char, 32> Sha256::digest() {
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(context_, digest.data(), nullptr));
  return digest;
}

std::string Sha256::finish() {
  return fmt::format("{:02x}", fmt::join(digest(), ""));
}

std::string sha256_of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string Sha256::finish_base64() {
  const std::array<unsigned char, 32> bytes = digest();
  std::array<unsigned char, 45> text{};  // 44 characters and a NUL
  const int length = EVP_EncodeBlock(text.data(), bytes.data(), static_cast<int>(bytes.size()));
  return {text.begin(), text.begin() + length};
}

}  // namespace reshardfs
