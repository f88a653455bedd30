// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted_cipher.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "encrypted_samples.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::key_of;

constexpr std::size_t kHeaderBytes = 48;

std::string random_text(std::mt19937_64& random, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// One block as encrypted by OpenSSL's GCM, taken apart.
struct GcmBlock {
  GcmBlock(const std::string& key, const std::string& plain, unsigned number) {
    const std::string block = test::encrypt_block("AES-GCM", key, plain, number);
    iv = block.substr(kHeaderBytes - 20, 16);
    cipher = block.substr(kHeaderBytes);
  }
  std::string iv;
  std::string cipher;

  std::string decrypt_range(const Decryption& decryption, std::size_t begin,
                            std::size_t count) const {
    std::string out = cipher.substr(begin, count);
    CipherStream(decryption, std::as_bytes(std::span(iv)), begin)
        .decrypt(std::as_writable_bytes(std::span(out)));
    return out;
  }
};

TEST(CipherStream, DecryptsAnyRangeAsTheWholeWouldBe) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const std::size_t key_bytes : {16U, 24U, 32U}) {
    const std::string key = random_text(random, key_bytes);
    const auto decryption = key_of("AES-GCM", key);
    // 256, 65536 and their neighbours: where the counter carries.
    const std::string plain = random_text(random, (70'000U << 4) + 5);
    const GcmBlock block(key, plain, static_cast<unsigned>(random()));
    for (const std::size_t counter : {0U, 1U, 2U, 253U, 254U, 255U, 65'533U, 65'534U, 70'000U}) {
      for (const std::size_t more : {0U, 1U, 4U}) {
        const std::size_t begin = counter * 16 + more;
        ASSERT_EQ(block.decrypt_range(*decryption, begin, 40), plain.substr(begin, 40)) << begin;
      }
    }
    for (int i = 0; i < 300; ++i) {
      const std::size_t begin = random() % (plain.size() + 1);
      const std::size_t count = random() % std::min<std::size_t>(plain.size() - begin + 1, 9000);
      ASSERT_EQ(block.decrypt_range(*decryption, begin, count), plain.substr(begin, count))
          << key_bytes << " bytes of key, at " << begin << ", " << count;
    }
  }
}

TEST(CipherStream, GoesOnInPiecesOfAnyLength) {
  std::mt19937_64 random(5);
  const std::string key = random_text(random, 16);
  const std::string plain = random_text(random, 5000);
  const GcmBlock block(key, plain, 3);
  for (std::size_t begin = 0; begin < 40; ++begin) {
    std::string found = block.cipher.substr(begin);
    CipherStream stream(*key_of("AES-GCM", key), std::as_bytes(std::span(block.iv)), begin);
    auto left = std::as_writable_bytes(std::span(found));
    while (!left.empty()) {
      const std::size_t count = std::min<std::size_t>(left.size(), random() % 100);
      stream.decrypt(left.first(count));
      left = left.subspan(count);
    }
    ASSERT_EQ(found, plain.substr(begin)) << begin;
  }
}

// There GCM and the counter mode would no longer count alike.
TEST(CipherStream, RefusesToCountFurtherThanGcm) {
  const std::string iv(16, '\xff');
  const auto begin_at = [&](std::uint64_t offset) {
    const CipherStream stream(*key_of("AES-GCM", std::string(16, 'k')),
                              std::as_bytes(std::span(iv)), offset);
  };
  const std::uint64_t end = (kGcmLastCounter - kGcmFirstCounter + 1) * kCipherBlockBytes;
  EXPECT_EQ(end, (1ULL << 36) - 32) << "what SP 800-38D allows for one initialization vector";
  EXPECT_NO_THROW(begin_at(end - 1));
  test::expect_error(ErrorKind::kInternal, {"OpenSSL"}, [&] { begin_at(end); });
}

}  // namespace
}  // namespace reshardfs
