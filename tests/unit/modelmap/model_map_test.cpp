// SPDX-License-Identifier: Apache-2.0
/// Files of maps: what they inherit, and everything that they can say wrong.
#include <sys/resource.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"
#include "support/cpu_time.h"

namespace reshardfs::modelmap::testing::model_map_tests {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// "to <- from + from" of each rule.
std::vector<std::string> rules_of(const ModelMap& map) {
  std::vector<std::string> rules;
  for (const MapRule& rule : map.rules) {
    std::string text = rule.to.text() + " <-";
    for (const Pattern& from : rule.from) text += ' ' + from.text();
    rules.push_back(text);
  }
  return rules;
}

std::string rule(const std::string& to, const std::string& from, const std::string& more = "") {
  return "[[map]]\nto = \"" + to + "\"\nfrom = \"" + from + "\"\n" + more + "\n";
}

std::string refusal(const std::string& text) {
  return refusal_of([&] { map_of(text); });
}

TEST(ModelMap, InheritsAndReplacesRulesByTheirTarget) {
  const ModelMap map = map_of(
      {{"map.toml", "extends = ['a.toml', 'sub/b.toml']\nwithout = ['gone']\n" + rule("x", "own")},
       {"a.toml", rule("x", "a") + rule("x", "a2") + rule("y", "a") + rule("gone", "a")},
       {"sub/b.toml",
        "extends = '../c.toml'\n" + rule("y", "b") + rule("z", "b") + rule("gone", "b")},
       {"c.toml", rule("z", "c") + rule("w", "c")}});
  EXPECT_THAT(rules_of(map), ElementsAre("y <- a", "w <- c", "z <- b", "x <- own"));
}

TEST(ModelMap, InheritsEverythingElse) {
  const ModelMap map = map_of({{"map.toml", R"(extends = ['a.toml', 'b.toml']
[vars]
n = 1
[drop]
from = ['own']
)"},
                               {"a.toml", R"([sides]
from = "A"
[vars]
n = 2
m = 2
[states]
"s." = "t."
[drop]
from = ['a']
[[block]]
from = "a."
to = "A."
[[alias]]
side = "from"
name = "x"
of = "of a"
)"},
                               {"b.toml", R"([sides]
from = "B"
to = "C"
[vars]
m = 3
k = 3
[states]
"s." = "u."
[drop]
from = ['b']
to = ['c']
[[block]]
from = "b."
to = "B."
[[alias]]
side = "from"
name = "x"
of = "of b"
[[alias]]
side = "to"
name = "x"
of = "of b"
[[map]]
to = "@x"
from = "@y"
)"}});
  EXPECT_EQ(map.from_side, "A");
  EXPECT_EQ(map.to_side, "C");
  const auto value = [&](const std::string& name) {
    return Scope(Variables{{}, map.variables, {}}).value(name);
  };
  EXPECT_EQ(value("n") * 100 + value("m") * 10 + value("k"), 123);
  EXPECT_EQ(map.states.at("s."), "t.");
  EXPECT_THAT(map.drop_from, ElementsAre("own", "a", "b"));
  EXPECT_THAT(map.drop_to, ElementsAre("c"));
  EXPECT_THAT(rules_of(map), ElementsAre("A.x <- a.y"));
  ASSERT_EQ(map.aliases.size(), 2U);
  EXPECT_EQ(map.aliases[0].of.text(), "of a");
  EXPECT_FALSE(map.aliases[1].is_from);
}

TEST(ModelMap, MakesOneRuleForEachBlock) {
  const ModelMap map = map_of(R"(
[[block]]
from = "m.{i}."
to = "d.{i}."
when = "i < 2"
[[block]]
from = "m.{i+2}."
to = "t.{i}."
optional = true
[[map]]
to = "@w"
from = ["@w", "@v"]
ops = ["concat 0"]
when = "i > 0"
[[map]]
to = "n"
from = "n"
)");
  EXPECT_THAT(rules_of(map), ElementsAre("d.{i}.w <- m.{i}.w m.{i}.v",
                                         "t.{i}.w <- m.{i+2}.w m.{i+2}.v", "n <- n"));
  EXPECT_EQ(map.rules[0].when.size(), 2U);
  EXPECT_EQ(map.rules[1].when.size(), 1U);
  EXPECT_FALSE(map.rules[0].optional);
  EXPECT_TRUE(map.rules[1].optional);
  EXPECT_EQ(map.rules[0].body, map.rules[1].body);
}

TEST(ModelMap, NamesFileAndLineOfWhatIsWrong) {
  EXPECT_THAT(refusal("\n[[map]]\nto = 'a'\nfrom = 'b'\nbad = 1\n"),
              StartsWith("map.toml: line 5: 'bad' is not a key of [[map]]"));
  EXPECT_THAT(refusal("[vars]\na = 1\nb = 'x +'\n"),
              StartsWith("map.toml: line 3: wrong expression"));
  EXPECT_THAT(refusal("[[map]]\nto = 'a'\nfrom = 'b'\nops = ['take 0 1',\n  'turn 1']\n"),
              StartsWith("map.toml: line 5: unknown operation 'turn 1'"));
  EXPECT_THAT(refusal("[[map]]\nto = 'a'\nfrom = 'b{'\n"), StartsWith("map.toml: line 1: "));
  EXPECT_THAT(refusal("a = [\n"), StartsWith("map.toml: line "));
  EXPECT_THAT(refusal_of([] {
                map_of({{"map.toml", "extends = 'other.toml'"}, {"other.toml", "\n\nx = 1"}});
              }),
              StartsWith("other.toml: line 3: "));
  EXPECT_THAT(refusal_of([] {
                map_of({{"map.toml", "extends = 'none.toml'"}});
              }),
              StartsWith("map.toml: line 1: 'extends' names 'none.toml', which does not exist"));
}

TEST(ModelMap, RefusesUnknownKeysAndWrongTypes) {
  for (const char* text : {"rules = 1",
                           "[sides]\nleft = 'x'",
                           "[sides]\nfrom = 1",
                           "vars = 3",
                           "[vars]\na = 1.5",
                           "[vars]\na = []",
                           "[vars]\na = {}",
                           "[vars]\n'a b' = 1",
                           "extends = 3",
                           "extends = ['']",
                           "without = 3",
                           "[drop]\nfrom = 'x'",
                           "[drop]\nmiddle = ['x']",
                           "[states]\na = 1",
                           "[states]\n'' = 'x'",
                           "[states]\na = 'x'\nb = 'x'",
                           "block = 3",
                           "[[block]]\nfrom = 'x'",
                           "[[block]]\nfrom = 'x'\nto = 'y'\nshape = 1",
                           "map = ['x']",
                           "[map]\nto = 'a'",
                           "[[alias]]\nside = 'left'\nname = 'a'\nof = 'b'",
                           "[[alias]]\nside = 'from'\nname = 'a'",
                           "[[alias]]\nside = 'from'\nname = 'a.{i}'\nof = 'b'",
                           "[[alias]]\nside = 'from'\nname = 'a'\nof = 'b.{i}'\nrange = {i = 2}",
                           "[[alias]]\nside = 'from'\nname = '@a'\nof = 'b'"}) {
    EXPECT_THAT(refusal(text), StartsWith("map.toml: ")) << text;
  }
  for (const char* keys : {"shape = 3",
                           "shape = '[a'",
                           "shape = ['[a]', '[b]']",
                           "each = 'x'",
                           "each = [['take 0 1'], []]",
                           "each = ['concat 0']",
                           "each = ['cast fp32->fp16']",
                           "ops = 'take 0 1'",
                           "ops = [3]",
                           "ops = ['take 0 1', 'concat 0']",
                           "ops = ['cast fp32->fp16', 'cast fp32->fp16']",
                           "to_shape = ['[a]']",
                           "range = 3",
                           "range = {x = 2}",
                           "when = ''",
                           "when = []",
                           "when = [['a']]",
                           "optional = 1",
                           "rest = 'keep'",
                           "rest = true",
                           "ops = ['stack 0 {c}']"}) {
    EXPECT_THAT(refusal(rule("a", "b", keys)), StartsWith("map.toml: line ")) << keys;
  }
  EXPECT_THAT(refusal("[[map]]\nto = 'a'\nfrom = []"), HasSubstr("empty"));
  EXPECT_THAT(refusal("[[map]]\nfrom = 'a'"), HasSubstr("has no 'to'"));
}

TEST(ModelMap, RefusesCapturesThatNothingGivesAValue) {
  EXPECT_THAT(refusal(rule("a", "b.{i}", "ops = ['stack 0 {i}']")), HasSubstr("needs a range"));
  EXPECT_THAT(refusal(rule("a.{i}", "b")), HasSubstr("needs a range"));
  EXPECT_THAT(refusal(rule("a", "b.{i}", "range = {i = 2}")), HasSubstr("have to be joined"));
  EXPECT_THAT(refusal(rule("a", "b.{i}",
                           "range = {i = 2}\neach = ['stack 0 {i}']\n"
                           "ops = ['stack 0 {i}']")),
              HasSubstr("have to be joined"));
  EXPECT_THAT(refusal(rule("a.{i}", "b.{i}", "ops = ['stack 0 {i}']")), HasSubstr("'from' alone"));
  EXPECT_THAT(refusal(rule("a.{i}", "b.{i:x|y}")), HasSubstr("a number and a word"));
  EXPECT_THAT(refusal(rule("a.{p:x|y}", "b", "range = {p = 2}")), HasSubstr("words"));
  EXPECT_THAT(refusal("[[map]]\nto = 'a'\nfrom = ['b', 'c']\n"), HasSubstr("have to be joined"));
  EXPECT_THAT(refusal("[[map]]\nto = 'a'\nfrom = ['b', 'c']\nops = ['take 0 1', 'concat 0']"),
              HasSubstr("have to be joined"));
  EXPECT_THAT(refusal(rule("a", "b", "ops = ['take 0 1', 'concat 0']")),
              HasSubstr("first operation"));
  EXPECT_THAT(refusal("[[map]]\nto = 'a.{i}.{j}'\nfrom = ['b.{i}', 'c.{j}']\nops = ['concat 0']"),
              HasSubstr("no pattern of 'from' has all"));
  EXPECT_THAT(refusal(rule("@a", "@b")), HasSubstr("[[block]]"));
}

TEST(ModelMap, RefusesInheritanceWithoutEnd) {
  EXPECT_THAT(refusal_of([] {
                map_of({{"map.toml", "extends = 'map.toml'"}});
              }),
              AllOf(StartsWith("map.toml: line 1"), HasSubstr("circle")));
  EXPECT_THAT(
      refusal_of([] {
        map_of({{"map.toml", "extends = 'a/b.toml'"}, {"a/b.toml", "extends = './../map.toml'"}});
      }),
      HasSubstr("circle"));
  MapFiles files;
  const auto chain = [&](int depth) {
    files.clear();
    for (int i = 0; i < depth; ++i) {
      files[i == 0 ? "map.toml" : std::to_string(i)] = "extends = '" + std::to_string(i + 1) + "'";
    }
    files[std::to_string(depth)] = rule("a", "b");
    return refusal_of([&] { map_of(files); });
  };
  EXPECT_EQ(chain(8), "accepted");
  EXPECT_THAT(chain(9), HasSubstr("8 files deep"));
  // Each level asks the next one many times.
  files.clear();
  for (int i = 0; i < 8; ++i) {
    std::string list;
    for (int k = 0; k < 1000; ++k) list += "'" + std::to_string(i + 1) + "',";
    files[i == 0 ? "map.toml" : std::to_string(i)] = "extends = [" + list + "]";
  }
  files["8"] = rule("a", "b");
  EXPECT_EQ(refusal_of([&] { map_of(files); }), "accepted");
  std::string list;
  for (int k = 0; k < 100; ++k) {
    list += "'f" + std::to_string(k) + "',";
    files["f" + std::to_string(k)] = "";
  }
  files["map.toml"] = "extends = [" + list + "]";
  EXPECT_THAT(refusal_of([&] { map_of(files); }), HasSubstr("more than 64 files"));
}

/// Nothing of that may take long, or much memory.
class HostileMap : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_LT(taken_.seconds(), 10);
#ifndef __SANITIZE_ADDRESS__  // which takes several times as much itself
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss / 1024, 400);
#endif
  }
  const test::CpuTime taken_;
};

TEST_F(HostileMap, IsRefusedIfItIsLarge) {
  EXPECT_THAT(refusal(std::string(kMaxMapBytes + 1, '\n')), HasSubstr("larger than 1 MiB"));
  EXPECT_EQ(refusal(std::string(kMaxMapBytes, '\n')), "accepted");
}

TEST_F(HostileMap, IsRefusedIfItHasTooManyRules) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "[[block]]\nfrom='a" + std::to_string(i) + "'\nto='b'\n";
  for (int i = 0; i < 1000; ++i) text += "[[map]]\nto='@" + std::to_string(i) + "'\nfrom='@x'\n";
  EXPECT_THAT(refusal(text), HasSubstr("1000000 rules"));
}

TEST_F(HostileMap, IsReadWithManyRules) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text +=
        "[[block]]\nfrom='a" + std::to_string(i) + ".{l}.'\nto='b" + std::to_string(i) + ".{l}.'\n";
  }
  for (int i = 0; i < 1000; ++i) {
    const std::string name = std::to_string(i);
    text += "[[map]]\nto='@" + name + "'\nfrom='@" + name + "'\noptional=true\n";
  }
  const ModelMap map = map_of(text);
  EXPECT_EQ(map.rules.size(), kMaxMapRules);
  MapOptions options;
  options.direction = Direction::kForward;
  std::vector<SourceTensor> tensors;
  for (int i = 0; i < 1000; ++i) {
    tensors.push_back({"a7.3." + std::to_string(i), DType::kFloat32, {4}});
  }
  EXPECT_EQ(map_tensors(map, tensors, options).targets.size(), 1000U);
}

TEST_F(HostileMap, IsRefusedForLongTextsAndDeepTables) {
  EXPECT_NE(refusal("[vars]\na = '" + std::string(1'000'000, '(') + "'"), "accepted");
  EXPECT_NE(refusal(rule(std::string(1'000'000, 'a'), "b")), "accepted");
  EXPECT_NE(refusal("a = " + std::string(1'000'000, '[')), "accepted");
  EXPECT_NE(refusal(std::string(1'000'000, '[')), "accepted");
  std::string operations;
  for (int i = 0; i < 65; ++i) operations += "'reshape [-1]',";
  EXPECT_THAT(refusal(rule("a", "b", "ops = [" + operations + "]")), HasSubstr("64 operations"));
  std::string sources;
  for (int i = 0; i < 100'000; ++i) sources += "'b',";
  EXPECT_THAT(refusal("[[map]]\nto='a'\nfrom=[" + sources + "]"), HasSubstr("256 patterns"));
}

TEST(InstalledMaps, AllLoad) {
  for (const char* name : {"megatron-deepseek-v3",
                           "megatron-deepseek-v32",
                           "megatron-gemma3",
                           "megatron-glm4-moe",
                           "megatron-gpt-oss",
                           "megatron-llama",
                           "megatron-minimax-m2",
                           "megatron-minimax-m3",
                           "megatron-mixtral",
                           "megatron-nemotron-h",
                           "megatron-qwen3-moe",
                           "megatron-ranks-llama",
                           "meta-llama",
                           "mindformers-deepseek-legacy",
                           "mindformers-deepseek-v3",
                           "mindformers-glm",
                           "mindformers-glm-hf",
                           "mindformers-llama",
                           "mindformers-llama-qkv-concat",
                           "mindformers-mcore",
                           "mindformers-mixtral",
                           "mindformers-mixtral-gmm",
                           "mindformers-qwen3",
                           "mindformers-qwen3-moe",
                           "mindformers-telechat2",
                           "megatron-qwen3-next",
                           "megatron-qwen35",
                           "packed-experts",
                           "packed-experts-mixtral",
                           "torchtitan-llama",
                           "torchtitan-qwen3",
                           "vllm-llama",
                           "vllm-llama-no-scales"}) {
    const ModelMap map = installed_map(name);
    EXPECT_EQ(map.from_side, "Hugging Face") << name;
    EXPECT_FALSE(map.rules.empty()) << name;
  }
  // They are parts of others: their "@" needs the others' [[block]].
  for (const char* name : {"megatron-moe", "mindformers-moe"}) {
    EXPECT_THAT(refusal_of([&] { installed_map(name); }), HasSubstr("[[block]]")) << name;
  }
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::model_map_tests
