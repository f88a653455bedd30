// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"
#include "support/cpu_time.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::int64_t look_up(const std::string& name) {
  const std::map<std::string, std::int64_t> values = {{"a", 7}, {"b", 2}, {"zero", 0}};
  const auto found = values.find(name);
  if (found == values.end()) throw Error(ErrorKind::kBadInput, "unknown variable '" + name + "'");
  return found->second;
}

std::int64_t value_of(const std::string& text) {
  return Expression::parse(text, ExpressionKind::kCondition).evaluate(look_up);
}

std::string refusal_of_value(const std::string& text,
                             ExpressionKind kind = ExpressionKind::kNumber) {
  return refusal_of([&] { Expression::parse(text, kind).evaluate(look_up); });
}

TEST(Expression, ComputesAsPeopleRead) {
  EXPECT_EQ(value_of("1 + 2*3 - 4"), 3);
  EXPECT_EQ(value_of("(1+2)*3"), 9);
  EXPECT_EQ(value_of("12/2/3"), 2);
  EXPECT_EQ(value_of("10-3-2"), 5);
  EXPECT_EQ(value_of("-a + +b"), -5);
  EXPECT_EQ(value_of("2 - -3"), 5);
  EXPECT_EQ(value_of("7 % 4 * 2"), 6);
  EXPECT_EQ(value_of("a*b"), 14);
  EXPECT_EQ(value_of("{a} + { b }"), 9);
  EXPECT_EQ(value_of("\t9223372036854775807 "), std::numeric_limits<std::int64_t>::max());
}

TEST(Expression, GivesRemaindersTheSignOfTheDivisor) {
  EXPECT_EQ(value_of("-7 % 4"), 1);
  EXPECT_EQ(value_of("7 % -4"), -1);
  EXPECT_EQ(value_of("-8 % 4"), 0);
  EXPECT_EQ(value_of("(-9223372036854775807 - 1) % -1"), 0);
}

TEST(Expression, ComparesInConditions) {
  EXPECT_EQ(value_of("1 < 2"), 1);
  EXPECT_EQ(value_of("2 <= 1"), 0);
  EXPECT_EQ(value_of("a == 7 and not b == 3"), 1);
  EXPECT_EQ(value_of("a != 7 or b >= 2"), 1);
  EXPECT_EQ(value_of("not a"), 0);
  EXPECT_EQ(value_of("not not a"), 1);
  EXPECT_EQ(value_of("true and 5"), 1);
  EXPECT_EQ(value_of("false or zero"), 0);
  EXPECT_EQ(value_of("1 or 0 and 0"), 1);
  EXPECT_EQ(value_of("(1 or 0) and 0"), 0);
  EXPECT_EQ(value_of("0 and 1 and 1 or 1 and 4"), 1);
  EXPECT_EQ(value_of("a > 3 + 3"), 1);
}

TEST(Expression, EvaluatesWhatAConditionNeedsAlone) {
  EXPECT_EQ(value_of("zero and nothing"), 0);
  EXPECT_EQ(value_of("a or nothing"), 1);
  EXPECT_THAT(refusal_of_value("a and nothing", ExpressionKind::kCondition),
              HasSubstr("unknown variable 'nothing'"));
}

TEST(Expression, RefusesWhatHasNoValue) {
  EXPECT_THAT(refusal_of_value("a/b"), HasSubstr("7 cannot be divided by 2"));
  EXPECT_THAT(refusal_of_value("a/zero"), HasSubstr("divided by 0"));
  EXPECT_THAT(refusal_of_value("a%zero"), HasSubstr("divided by 0"));
  for (const char* text :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "4611686018427387904 * 2",
        "(-9223372036854775807 - 1) / -1", "-(-9223372036854775807 - 1)"}) {
    EXPECT_THAT(refusal_of_value(text), HasSubstr("64-bit")) << text;
  }
}

TEST(Expression, RefusesWhatIsNone) {
  for (const char* text : {"",
                           " ",
                           "+",
                           "1 +",
                           "1 2",
                           "2F",
                           "(1",
                           "1)",
                           "a b",
                           "a..b",
                           "a-",
                           "*2",
                           "99999999999999999999",
                           "{a",
                           "{}",
                           "{2}",
                           "a,b",
                           "a;b",
                           "1 = 1",
                           "not 1",
                           "1 and 1",
                           "1 == 1",
                           "1 < 2",
                           "a.b",
                           "\xff",
                           "0x10",
                           "1.5"}) {
    EXPECT_THAT(refusal_of_value(text), StartsWith("wrong expression")) << text;
  }
  for (const char* text : {"1 < 2 < 3", "and", "1 or", "not", "1 == ", "or 1"}) {
    EXPECT_THAT(refusal_of_value(text, ExpressionKind::kCondition), StartsWith("wrong expression"))
        << text;
  }
}

TEST(Expression, RefusesHostileTextsQuickly) {
  const test::CpuTime taken;
  const std::size_t mebibyte = std::size_t{1} << 20U;
  for (const char* piece : {"(", "-", "a+", "1", "not ", "a and "}) {
    std::string text;
    while (text.size() < mebibyte) text += piece;
    EXPECT_THAT(refusal_of_value(text, ExpressionKind::kCondition), HasSubstr("longer than"));
  }
  EXPECT_THAT(refusal_of_value(std::string(2000, '(')), HasSubstr("brackets inside each other"));
  EXPECT_EQ(value_of(std::string(64, '(') + "1" + std::string(64, ')')), 1);
  EXPECT_EQ(value_of(std::string(4000, '-') + "1"), 1);
  EXPECT_LT(taken.seconds(), 2);
}

TEST(Expression, TellsWhichNameAKnownValueGivesAValue) {
  const auto bindable = [](const std::string& text) {
    return Expression::parse(text).bindable_name().value_or("none");
  };
  EXPECT_EQ(bindable("F"), "F");
  EXPECT_EQ(bindable("2*F"), "F");
  EXPECT_EQ(bindable("(a+b)*b*F"), "F");
  EXPECT_EQ(bindable("a+F"), "none");
  EXPECT_EQ(bindable("a+2*F"), "none");
  EXPECT_EQ(bindable("F*2"), "none");
  EXPECT_EQ(bindable("a/F"), "none");
  EXPECT_EQ(bindable("7"), "none");
  EXPECT_EQ(bindable("-F"), "none");
  EXPECT_EQ(Expression::parse("(a+b)*b*F").bindable_factor(look_up), 18);
  EXPECT_EQ(Expression::parse("F").bindable_factor(look_up), 1);
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
