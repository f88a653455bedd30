// SPDX-License-Identifier: Apache-2.0
#include "base/text/utf8.h"

#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(Utf8, IsReadAndWrittenWholeRange) {
  for (char32_t character = 0; character < 0x110'000; ++character) {
    const bool surrogate = character >= 0xd800 && character < 0xe000;
    std::string text;
    ASSERT_EQ(append_utf8(text, character), !surrogate)
        << std::hex << static_cast<unsigned>(character);
    if (surrogate) continue;
    const Utf8Character read = utf8_character(text + "x", 0);
    ASSERT_EQ(read.bytes, text.size()) << std::hex << static_cast<unsigned>(character);
    ASSERT_EQ(read.number, character);
  }
  std::string text;
  EXPECT_FALSE(append_utf8(text, 0x110'000));
  EXPECT_FALSE(append_utf8(text, 0xffff'ffff));
  EXPECT_EQ(text, "");
}

TEST(Utf8, RefusesWhatIsNotWellFormed) {
  for (const char* bad : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80", "\xff",
                          "\xe2\x82", "\xc3", "\xe2\x28\xa1"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
    EXPECT_EQ(utf8_length(bad, 0), 0U) << bad;
  }
  // What follows the end of a view is not looked at.
  EXPECT_EQ(utf8_length(std::string_view("\xc3\xa4").substr(0, 1), 0), 0U);
  EXPECT_TRUE(is_utf8(std::string("a\0\xc3\xa4", 4)));
}

TEST(Utf8, KnowsControlCharacters) {
  for (char32_t character = 0; character < 0x3000; ++character) {
    const bool control = character < 0x20 || (character >= 0x7f && character < 0xa0);
    const bool layout = (character >= 0x2028 && character <= 0x202e) ||
                        (character >= 0x2066 && character <= 0x2069);
    EXPECT_EQ(is_control(character), control) << std::hex << static_cast<unsigned>(character);
    EXPECT_EQ(is_layout_control(character), layout) << std::hex << static_cast<unsigned>(character);
  }
}

TEST(Utf8, KnowsTheColumnsOfACharacter) {
  EXPECT_EQ(columns_of(U'a'), 1U);
  EXPECT_EQ(columns_of(U'\u5c42'), 2U);
  EXPECT_EQ(columns_of(U'\uff21'), 2U);
  EXPECT_EQ(columns_of(U'\U0001f600'), 2U);
  EXPECT_EQ(columns_of(U'\u0301'), 0U);
  EXPECT_EQ(columns_of(U'\u200b'), 0U);
  EXPECT_EQ(columns_of(U'\u0e31'), 0U);
}

}  // namespace
}  // namespace reshardfs
