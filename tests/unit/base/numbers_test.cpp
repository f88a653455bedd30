// SPDX-License-Identifier: Apache-2.0
#include "base/text/numbers.h"

#include <limits>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(Numbers, AreDigitsAlone) {
  EXPECT_EQ(parse_number("0"), 0);
  EXPECT_EQ(parse_number("007"), 7);
  EXPECT_EQ(parse_number("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "-0", "1x", "x1", "1.0", "0x1"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
    EXPECT_EQ(parse_number<unsigned>(text), std::nullopt) << text;
  }
}

TEST(Numbers, FitTheirType) {
  EXPECT_EQ(parse_number("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_number<int>("2147483648"), std::nullopt);
}

TEST(Numbers, HaveABase) {
  EXPECT_EQ(parse_number<unsigned>("040", 8), 32U);
  EXPECT_EQ(parse_number<unsigned>("048", 8), std::nullopt);
  EXPECT_EQ(parse_number<std::uint64_t>("00000000fFFFffff", 16), 0xffffffffU);
  EXPECT_EQ(parse_number<unsigned>("0x1", 16), std::nullopt);
}

TEST(Numbers, BeginTexts) {
  std::string_view text = "12-34";
  EXPECT_EQ(take_number<int>(text), 12);
  EXPECT_EQ(text, "-34");
  EXPECT_EQ(take_number<int>(text), std::nullopt);
  EXPECT_EQ(text, "-34");
  text = "99999999999 ";
  EXPECT_EQ(take_number<int>(text), std::nullopt);
  EXPECT_EQ(text.size(), 12U);
}

TEST(Numbers, HaveASignWhereItIsAskedFor) {
  EXPECT_EQ(parse_signed_number("-12"), -12);
  EXPECT_EQ(parse_signed_number("12"), 12);
  EXPECT_EQ(parse_signed_number("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const char* text : {"", "-", "--1", "+1", "- 1", "-9223372036854775809"}) {
    EXPECT_EQ(parse_signed_number(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace reshardfs
