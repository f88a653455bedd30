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
  Variables variables;
  variables.config = ModelConfig::parse(text);
  return variables;
}

TEST(Variables, ComeFromConfigJson) {
  const Variables variables = with_config(R"({
    "num_attention_heads": 8, "hidden_size": 64, "tie_word_embeddings": true, "null_one": null,
    "num_key_value_heads": null, "text": "x", "half": 1.5, "flag": false, "list": [1],
    "text_config": {"num_hidden_layers": 4, "hidden_size": 3, "deep": {"vocab_size": 5},
                    "per_layer_config": {"1": {"head_dim": 12, "window": 3, "kind": "full"},
                                         "3": {"head_dim": 12, "window": 4}, "4": 5}}})");
  EXPECT_EQ(value("per_layer_head_dim", variables), "12");
  EXPECT_EQ(value("heads", variables), "8");
  EXPECT_EQ(value("num_attention_heads", variables), "8");
  EXPECT_EQ(value("groups", variables), "8");
  EXPECT_EQ(value("head_dim", variables), "8");
  EXPECT_EQ(value("hidden_size", variables), "64");
  EXPECT_EQ(value("layers", variables), "4");
  EXPECT_EQ(value("tied", variables), "1");
  EXPECT_EQ(value("flag", variables), "0");
  for (const char* name : {"null_one", "text", "half", "list", "vocab", "vocab_size", "window",
                           "per_layer_window", "per_layer_kind", "per_layer_config"}) {
    EXPECT_THAT(value(name, variables),
                ::testing::StartsWith("unknown variable '" + std::string(name) + "'"));
  }
}

TEST(Variables, AreWhatAConfigWithoutTheKeyMeans) {
  const Variables variables = with_config(R"({"intermediate_size": 12, "model_type": "llama"})");
  EXPECT_EQ(value("moe_ffn", variables), "12");
  for (const char* name : {"shared_experts", "dense_layers", "mtp_layers", "tied"}) {
    EXPECT_EQ(value(name, variables), "0") << name;
  }
  EXPECT_THAT(value("groups", variables), HasSubstr("unknown variable 'groups'"));
  EXPECT_THAT(value("groups", variables), HasSubstr("unknown variable 'heads'"));
}

/// What a class of transformers takes for a missing key differs.
TEST(Variables, AreUnknownWhereTheModelsClassHasAnotherDefault) {
  const auto of_type = [](const std::string& type) {
    return with_config(R"({"num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 8,
                           "model_type": ")" +
                       type + "\"}");
  };
  EXPECT_EQ(value("groups", of_type("llama")), "4");
  EXPECT_THAT(value("groups", of_type("mistral")), HasSubstr("unknown variable 'groups'"));
  EXPECT_EQ(value("head_dim", of_type("llama")), "16");
  EXPECT_THAT(value("head_dim", of_type("qwen3")), HasSubstr("unknown variable 'head_dim'"));
  EXPECT_THAT(value("tied", of_type("gemma2")), HasSubstr("unknown variable 'tied'"));
  EXPECT_THAT(value("dense_layers", of_type("deepseek_v3")), HasSubstr("unknown variable"));
}

TEST(Variables, AreUnknownWithoutAConfig) {
  Variables variables;
  variables.given = {{"heads", 4}, {"hidden", 64}, {"ffn", 3}};
  for (const char* name : {"groups", "head_dim", "moe_ffn", "shared_experts", "dense_layers",
                           "mtp_layers", "tied", "tp", "from_tp"}) {
    EXPECT_THAT(value(name, variables), HasSubstr("unknown variable '" + std::string(name) + "'"))
        << name;
  }
  EXPECT_THAT(value("tp", variables), HasSubstr("give --map-var tp=N"));
}

TEST(Variables, TellWhereTheyComeFrom) {
  Variables variables = with_config(R"({"num_attention_heads": 4, "hidden_size": 64})");
  variables.given["ffn"] = 3;
  variables.table["twice"] = {expression("2*heads")};
  Scope scope(variables);
  scope.set_parts([](const std::string& name) {
    return name == "tp" ? Known<std::int64_t>::stated(2, "a strategy")
                        : Known<std::int64_t>::unknown("it is cut twice");
  });
  EXPECT_EQ(scope.known("ffn").origin(), "--map-var ffn=3");
  EXPECT_EQ(scope.known("heads").origin(), "config.json: num_attention_heads");
  EXPECT_EQ(scope.known("groups").origin(), "config.json has no num_key_value_heads: heads");
  EXPECT_EQ(scope.known("twice").origin(),
            "the map: 2*heads (heads is 4: config.json: num_attention_heads)");
  EXPECT_EQ(scope.known("tp").origin(), "a strategy");
  EXPECT_THAT(scope.known("from_tp").origin(), HasSubstr("it is cut twice"));
}

TEST(Variables, FollowFromSettingsOfTheTraining) {
  Variables variables;
  Setting setting;
  setting.keys = {"use_it", "use_it_of_old"};
  setting.readings = {{0, "one"}, {1, "the other"}};
  setting.framework = "Frame";
  setting.releases = {{*Release::parse("1.0"), 0}, {*Release::parse("1.7"), 1}};
  variables.settings["it"] = setting;
  const std::string unknown = value("it", variables);
  for (const char* word : {"unknown variable 'it'", "0 means one", "1 means the other",
                           "--map-var it=0 or it=1", "--training-config", "use_it",
                           "--map-var release=N with the release of Frame that trains"}) {
    EXPECT_THAT(unknown, HasSubstr(word));
  }
  for (const auto& [release, wanted] :
       {std::pair("1.6.9", "0"), {"1.7", "1"}, {"1.7.0", "1"}, {"1.10", "1"}, {"2", "1"}}) {
    variables.release = Release::parse(release);
    EXPECT_EQ(value("it", variables), wanted) << release;
  }
  variables.release = Release::parse("0.9");
  EXPECT_THAT(value("it", variables), HasSubstr("unknown variable 'it'"));
  variables.release = Release::parse("1.7");
  const std::set<std::string> keys{"use_it", "use_it_of_old"};
  variables.training = TrainingConfig::parse("a:\n  use_it_of_old: no\n", "run.yaml", keys);
  EXPECT_EQ(value("it", variables), "0");
  EXPECT_EQ(Scope(variables).known("it").origin(), "run.yaml:2: use_it_of_old");
  variables.config = ModelConfig::parse(R"({"use_it": true})");
  EXPECT_THAT(value("it", variables), HasSubstr("run.yaml:2: use_it_of_old is 0"));
  EXPECT_THAT(value("it", variables), HasSubstr("config.json: use_it is 1"));
  variables.given["it"] = 1;
  EXPECT_EQ(value("it", variables), "1");
}

TEST(Variables, FollowFromReleasesThatTheTrainingsFileProves) {
  Variables variables;
  Setting setting;
  setting.framework = "Frame";
  setting.releases = {{*Release::parse("1.0"), 0}, {*Release::parse("1.7"), 1}};
  variables.settings["it"] = setting;
  variables.release_proofs = {{"old", {}, *Release::parse("1.5")},
                              {"new", {}, *Release::parse("1.8")},
                              {"mode", 1, *Release::parse("2.0")}};
  const auto train = [&](const std::string& text) {
    variables.training = TrainingConfig::parse(text, "run.yaml", {"old", "new", "mode"});
    return value("it", variables);
  };
  EXPECT_THAT(train("mode: 0"), HasSubstr("unknown variable 'it'"));
  EXPECT_THAT(train("old: 1"), HasSubstr("unknown variable 'it'"));  // 1.7 changed it
  EXPECT_EQ(train("old: 1\nnew: 0"), "1");
  EXPECT_EQ(train("mode: 1"), "1");
  EXPECT_EQ(Scope(variables).known("it").origin(),
            "the default of Frame 2 or later, of which run.yaml:1: mode is 1");
  variables.release = Release::parse("1.6");
  EXPECT_EQ(train("mode: 0"), "0");
  EXPECT_THAT(train("new: 1"), HasSubstr("--map-var release=1.6, but run.yaml:1: new"));
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
  EXPECT_THAT(refusal_of([&] { ModelConfig::parse(deep); }), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal_of([&] { ModelConfig::parse(std::string(17 << 20, ' ')); }),
              HasSubstr("larger"));
  EXPECT_EQ(
      ModelConfig::parse(R"({"a": 99999999999999999999, "b": 18446744073709551615})").find("b"),
      std::nullopt);
}

TEST(Releases, AreReadAndCompared) {
  EXPECT_EQ(Release::parse("1.6.0"), Release::parse("1.6"));
  EXPECT_LT(*Release::parse("1.6"), *Release::parse("1.10"));
  EXPECT_LT(*Release::parse("1.6.9"), *Release::parse("1.7"));
  EXPECT_EQ(Release::parse("1.7.0")->text(), "1.7");
  for (const char* text : {"", "1.", ".1", "r1.6", "1.6rc1", "-1", "1..2", "1.2.3.4.5"}) {
    EXPECT_FALSE(Release::parse(text)) << text;
  }
  EXPECT_EQ(parse_release("release=1.6"), *Release::parse("1.6"));
  EXPECT_THAT(refusal_of([] { parse_release("release=new"); }), HasSubstr("release=1.7.0"));
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
