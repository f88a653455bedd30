// SPDX-License-Identifier: Apache-2.0
#include "view/files/text_value.h"

#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::memory_set;
using test::record;

std::string utf32(const std::u32string& text) {
  std::string bytes;
  for (const char32_t c : text) {
    for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(c >> shift & 0xffU);
  }
  return bytes;
}

std::optional<std::string> value_of(const std::string& content, const std::string& type = "str") {
  const Shape dims = type == "str" ? Shape{0} : Shape{static_cast<std::int64_t>(content.size())};
  const auto set = memory_set({{0, record("s", dims, type, content)}});
  const auto source = std::make_shared<const SourceTable>(set, std::nullopt);
  const TargetTable target(source, std::nullopt, {});
  return text_value(target.parameters().front());
}

TEST(TextValue, IsUtf8WithoutTheNulsAtItsEnd) {
  EXPECT_EQ(value_of(utf32(U"llama")), "llama");
  EXPECT_EQ(value_of(utf32(U"é模\U0001f600")), "\u00e9\u6a21\U0001f600");
  EXPECT_EQ(value_of(utf32({U'a', 0, U'b', 0, 0})), std::string("a\0b", 3));
  EXPECT_EQ(value_of(utf32({0})), "");
}

TEST(TextValue, IsNothingForWhatIsNoText) {
  EXPECT_EQ(value_of(utf32({0xd800})), std::nullopt);
  EXPECT_EQ(value_of(utf32({0x110000})), std::nullopt);
  EXPECT_EQ(value_of("abcd", "UInt8"), std::nullopt);
  EXPECT_EQ(value_of(utf32(std::u32string(16385, U'x'))), std::nullopt);
  EXPECT_EQ(value_of(utf32(std::u32string(16384, U'x'))), std::string(16384, 'x'));
}

}  // namespace
}  // namespace reshardfs
