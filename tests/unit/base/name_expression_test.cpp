// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_expression.h"

#include <random>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

bool matches(const std::string& expression, const std::string& text) {
  return NameExpression(expression).matches_beginning(text);
}

TEST(NameExpression, MatchesFromTheBeginningOn) {
  EXPECT_TRUE(matches(".*self_attn.*", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(matches("model", "model.layers.0"));
  EXPECT_FALSE(matches("layers", "model.layers.0"));
  EXPECT_FALSE(matches("model$", "model.layers.0"));
  EXPECT_TRUE(
      matches(R"(.*\.layers\.(\d|1\d)\.mlp\.(gate|up|down)_proj$)", "model.layers.12.mlp.up_proj"));
  EXPECT_FALSE(matches(R"(.*\.layers\.(\d|1\d)\.mlp\.)", "model.layers.22.mlp.up_proj"));
  EXPECT_TRUE(matches("^(?:language_)?model[.]x{2,3}?y", "model.xxxy"));
  EXPECT_FALSE(matches("ax{2,3}y", "axy"));
  EXPECT_TRUE(matches("", "anything"));
  EXPECT_TRUE(matches("a{x}", "a{x}")) << "braces without a number are themselves";
  EXPECT_TRUE(matches(R"([^\d.]+\.[a-c\-]$)", "model.-"));
}

TEST(NameExpression, RefusesWhatItDoesNotKnow) {
  for (const char* const text :
       {"(?=x)y", "(?!x)", "(?P<n>x)", R"((a)\1)", R"(\bx)", "a**", "a++", "*a", "(a", "a)", "[a",
        "a\\", "x{1001}", "(((a{900}){900}){900})", "[b-a]"}) {
    expect_error(ErrorKind::kUnsupported, {"the expression has"}, [&] { NameExpression{text}; });
  }
}

/// An expression that would take exponential time if it were tried in one way after the other.
TEST(NameExpression, TakesTimeInProportion) {
  EXPECT_FALSE(matches("(a*)*(a|a)*b", std::string(2'000, 'a')));
  EXPECT_FALSE(matches("(a?){200}a{200}b", std::string(200, 'a')));
}

/// Parts of random expressions, for both kinds alike.
std::string any_expression(std::mt19937& dice, int depth) {
  const auto one_of = [&](int count) {
    return static_cast<int>(dice() % static_cast<unsigned>(count));
  };
  std::string out;
  for (int parts = one_of(4); parts >= 0; --parts) {
    const int which = one_of(depth > 0 ? 7 : 5);
    if (which < 2) out += static_cast<char>('a' + one_of(3));
    if (which == 2) out += '.';
    if (which == 3) out += one_of(2) == 0 ? "[ab]" : "[^b]";
    if (which == 4) out += R"(\w)";
    if (which > 4)
      out += "(" + any_expression(dice, depth - 1) + "|" + any_expression(dice, depth - 1) + ")";
    const int times = one_of(8);
    if (times == 0) out += "*";
    if (times == 1) out += "+";
    if (times == 2) out += "?";
    if (times == 3) out += "{1,2}";
  }
  return out;
}

TEST(NameExpression, MatchesAsAnotherEngine) {
  std::mt19937 dice(5);
  for (int i = 0; i < 250; ++i) {
    const std::string text = any_expression(dice, 2);
    const NameExpression expression(text);
    const std::regex other(text);
    for (int j = 0; j < 10; ++j) {
      std::string name;
      for (unsigned length = static_cast<unsigned>(dice() % 7); length > 0; --length) {
        name += static_cast<char>("abc."[dice() % 4]);
      }
      ASSERT_EQ(expression.matches_beginning(name),
                std::regex_search(name, other, std::regex_constants::match_continuous))
          << text << " and " << name;
    }
  }
}

}  // namespace
}  // namespace reshardfs
