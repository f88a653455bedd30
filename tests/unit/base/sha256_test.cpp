// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <string_view>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(Sha256, IsHexadecimalOrBase64) {
  const std::string_view text = "abc";  // the example of FIPS 180-2
  Sha256 hexadecimal;
  hexadecimal.update(std::as_bytes(std::span(text)));
  EXPECT_EQ(hexadecimal.finish(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 base64;
  base64.update(std::as_bytes(std::span(text)));
  EXPECT_EQ(base64.finish_base64(), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

}  // namespace
}  // namespace reshardfs
