// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::HasSubstr;

Expression expression(const std::string& text) {
  return Expression::parse(text, ExpressionKind::kCondition);
}

/// The value of a name, or the message.
std::string value(const std::string& name, const Variables& variables) {
  try {
    return std::to_string(Scope(variables).value(name));
  } catch (const Error& error) {
    return error.message();
  }
}

Variables with_config(const std::string& text) {
  return {{}, {}, ModelConfig::parse(text)};
}

TEST(Variables, ComeFromConfigJson) {
  const Variables variables = with_config(R"({
    "num_attention_heads": 8, "hidden_size": 64, "tie_word_embeddings": true, "null_one": null,
    "num_key_value_heads": null, "text": "x", "half": 1.5, "flag": false, "list": [1],
    "text_config": {"num_hidden_layers": 4, "hidden_size": 3, "deep": {"vocab_size": 5}}})");
  EXPECT_EQ(value("heads", variables), "8");
  EXPECT_EQ(value("num_attention_heads", variables), "8");
  EXPECT_EQ(value("groups", variables), "8");
  EXPECT_EQ(value("head_dim", variables), "8");
  EXPECT_EQ(value("hidden_size", variables), "64");
  EXPECT_EQ(value("layers", variables), "4");
  EXPECT_EQ(value("tied", variables), "1");
  EXPECT_EQ(value("flag", variables), "0");
  for (const char* name : {"null_one", "text", "half", "list", "vocab", "vocab_size"}) {
    EXPECT_THAT(value(name, variables),
                ::testing::StartsWith("unknown variable '" + std::string(name) + "'"));
  }
}

TEST(Variables, HaveTheDefaultsOfTheTable) {
  const Variables variables = with_config(R"({"intermediate_size": 12})");
  EXPECT_EQ(value("moe_ffn", variables), "12");
  for (const char* name : {"shared_experts", "dense_layers", "mtp_layers", "tied"}) {
    EXPECT_EQ(value(name, variables), "0") << name;
  }
  EXPECT_EQ(value("tp", variables), "1");
  EXPECT_EQ(value("from_tp", variables), "1");
  EXPECT_THAT(value("groups", variables), HasSubstr("unknown variable 'groups'"));
  EXPECT_THAT(value("groups", variables), HasSubstr("unknown variable 'heads'"));
}

TEST(Variables, AreLookedUpInOrder) {
  Variables variables = with_config(R"({"n": 4, "head_dim": 5, "num_attention_heads": 6})");
  EXPECT_EQ(value("n", variables), "4");
  variables.table["n"] = {expression("30")};
  EXPECT_EQ(value("n", variables), "30");
  variables.given["n"] = 2;
  EXPECT_EQ(value("n", variables), "2");
  Scope scope(variables);
  scope.bind("n", 1);
  EXPECT_EQ(scope.value("n"), 1);
  variables.given["heads"] = 3;
  EXPECT_EQ(value("groups", variables), "3");
  EXPECT_EQ(value("head_dim", variables), "5");
}

TEST(Variables, TakeTheFirstAlternativeWithoutUnknownNames) {
  Variables variables = with_config(R"({"known": 3})");
  variables.table["a"] = {expression("nothing"), expression("known+nothing"), expression("known+1"),
                          expression("9")};
  variables.table["b"] = {expression("a*2")};
  variables.table["c"] = {expression("nothing")};
  EXPECT_EQ(value("a", variables), "4");
  EXPECT_EQ(value("b", variables), "8");
  EXPECT_THAT(value("c", variables), HasSubstr("unknown variable 'c'"));
  EXPECT_THAT(value("c", variables), HasSubstr("unknown variable 'nothing'"));
}

TEST(Variables, MayNotStandForThemselves) {
  Variables variables = with_config("{\"d\": 3}");
  variables.table["a"] = {expression("b")};
  variables.table["b"] = {expression("a+1")};
  EXPECT_THAT(value("a", variables), HasSubstr("stands for itself"));
  variables.table["d"] = {expression("d+1")};
  EXPECT_EQ(value("d", variables), "4");  // of config.json
  // Each asks the next one twice; without a memory that would never end.
  for (int i = 0; i < 40; ++i) {
    const std::string next = "v" + std::to_string(i + 1);
    variables.table["v" + std::to_string(i)] = {expression(next), expression(next + "+1")};
  }
  EXPECT_THAT(value("v0", variables), HasSubstr("unknown variable 'v0'"));
  for (int i = 0; i < 100'000; ++i) {
    variables.table["w" + std::to_string(i)] = {expression("w" + std::to_string(i + 1))};
  }
  EXPECT_THAT(value("w0", variables), HasSubstr("others one after the other"));
}

TEST(Variables, RefuseConfigsThatAreNone) {
  for (const char* text : {"", "[]", "{", "3", "{\"a\": 1,}"}) {
    EXPECT_THAT(refusal_of([&] { ModelConfig::parse(text); }), HasSubstr("JSON")) << text;
  }
  std::string deep = "{\"a\": 5, \"b\": ";
  for (int i = 0; i < 500'000; ++i) deep += "[";
  EXPECT_THAT(refusal_of([&] { ModelConfig::parse(deep); }), HasSubstr("JSON"));
  EXPECT_THAT(refusal_of([&] { ModelConfig::parse(std::string(17 << 20, ' ')); }),
              HasSubstr("larger"));
  EXPECT_EQ(
      ModelConfig::parse(R"({"a": 99999999999999999999, "b": 18446744073709551615})").find("b"),
      std::nullopt);
}

TEST(Variables, AreReadFromTheCommandLine) {
  EXPECT_EQ(parse_map_variable("heads=32"), (std::pair<std::string, std::int64_t>("heads", 32)));
  EXPECT_EQ(parse_map_variable("x=-1").second, -1);
  for (const char* text : {"", "heads", "heads=", "=3", "heads=3x", "2a=1", "a=1.5"}) {
    EXPECT_THAT(refusal_of([&] { parse_map_variable(text); }), HasSubstr("NAME=NUMBER")) << text;
  }
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
