// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "encrypted_samples.h"
#include "support/errors.h"
#include "support/sources.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::key_of;

/// Whether the file's content is understood as `key`.
void expect_key(const std::string& mode, const std::string& content, const std::string& key) {
  SCOPED_TRACE(content);
  const std::string plain = "thirty or so bytes of plain text";
  const auto file = std::make_shared<test::MemorySource>(test::encrypt(mode, key, plain, 512));
  const auto found = decrypt(file, key_of(mode, content));
  EXPECT_EQ(test::read_text(*found, 0, plain.size()), plain);
}

TEST(KeyFile, HoldsBytesOrHexadecimalDigits) {
  const std::string key16("\x00\x01\xab\xcd\xef g\n89012345\n", 16);
  const std::string key24 = key16 + "01234\n67";
  const std::string key32 = key16 + key16;
  for (const std::string& key : {key16, key24, key32}) {
    std::string digits;
    for (const char c : key) {
      digits += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
      digits += "0123456789ABCDEF"[c & 15];
    }
    for (const std::string mode : {"AES-GCM", "AES-CBC"}) {
      expect_key(mode, key, key);
      expect_key(mode, digits, key);
      expect_key(mode, digits + "\n", key);
      expect_key(mode, digits + "\r\n", key);
    }
  }
  expect_key("SM4-CBC", key16, key16);
}

TEST(KeyFile, IsHexadecimalWhereItCouldBeBoth) {
  expect_key("AES-GCM", "30313233343536373839303132333435", "0123456789012345");
  expect_key("SM4-CBC", "30313233343536373839303132333435", "0123456789012345");
}

TEST(KeyFile, HoldsDigitsThatAreNoHexadecimalKey) {
  expect_key("AES-GCM", "0123456789abcdef", "0123456789abcdef");
  expect_key("AES-GCM", "0123456789abcdef\n", "0123456789abcdef");
  expect_key("AES-GCM", "0123456789abcdef01234567", "0123456789abcdef01234567");
}

TEST(KeyFile, RefusesOtherLengthsWithoutShowingThem) {
  for (const std::size_t bytes :
       {0U, 1U, 15U, 18U, 23U, 31U, 40U, 47U, 63U, 66U, 128U, 129U, 5000U}) {
    for (const char fill : {'a', 'z'}) {
      const test::TempDir dir;
      const std::string path = dir.write("key", std::string(bytes, fill)).string();
      try {
        Decryption::load(path, "AES-GCM");
        ADD_FAILURE() << bytes;
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_EQ(error.kind(), ErrorKind::kBadInput);
        EXPECT_EQ(error.file(), path);
        EXPECT_NE(text.find("16, 24 or 32"), std::string::npos) << text;
        EXPECT_EQ(text.find(std::string(4, fill)), std::string::npos) << text;
      }
    }
  }
  for (const std::size_t bytes : {24U, 48U, 64U}) {
    expect_error(ErrorKind::kBadInput, {"SM4-CBC", "16 bytes"},
                 [&] { key_of("SM4-CBC", std::string(bytes, 'a')); });
  }
}

TEST(KeyFile, RefusesUnknownModesAndMissingFiles) {
  for (const char* mode : {"", "aes-gcm", "AES-CTR"}) {
    expect_error(ErrorKind::kUsage, {"AES-GCM, AES-CBC and SM4-CBC"},
                 [&] { key_of(mode, std::string(16, 'k')); });
  }
  expect_error(ErrorKind::kMissing, {"/no/such/key"},
               [] { Decryption::load("/no/such/key", "AES-GCM"); });
}

TEST(KeyFile, WarnsWhereOthersCanReadIt) {
  using std::filesystem::perms;
  const test::TempDir dir;
  const auto path = dir.write("key", std::string(16, 'k'));
  std::filesystem::permissions(path, perms::owner_read);
  EXPECT_EQ(Decryption::load(path, "AES-GCM")->warning(), "");
  for (const perms more : {perms::group_read, perms::others_read}) {
    std::filesystem::permissions(path, perms::owner_read | more);
    EXPECT_NE(Decryption::load(path, "AES-GCM")->warning().find(path.string()), std::string::npos);
  }
}

}  // namespace
}  // namespace reshardfs
