// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"
#include "modelmap/training_settings.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::HasSubstr;

TrainingConfig config(const std::string& text) {
  return TrainingConfig::parse(text, "run.yaml", {"a", "b"});
}

/// The value of a key with its origin, or why there is none.
std::string value(const std::string& text, const std::string& key = "a") {
  const Known<std::int64_t> found = config(text).find(key);
  return (found ? std::to_string(*found) + " of " : "") + found.origin();
}

TEST(TrainingConfig, FindsKeysAtAnyDepth) {
  EXPECT_EQ(value("a: 3"), "3 of run.yaml:1: a");
  EXPECT_EQ(value("# so\nmodel:\n  model_config:\n    x: 1\n    a: 7\n"), "7 of run.yaml:5: a");
  EXPECT_EQ(value("l:\n- {x: 1}\n- {a: 5, b: 6}\n", "b"), "6 of run.yaml:3: b");
  EXPECT_EQ(value("x: 1\n---\na: 2\n"), "2 of run.yaml:3: a");
  EXPECT_EQ(value("x: {a: [1]}\nc: 1\n", "b"), "");
  EXPECT_TRUE(config("x: 1").empty());
  EXPECT_TRUE(config("").empty());
}

TEST(TrainingConfig, FindsKeysWithDotsAtTheTopAlone) {
  const auto mode = [](const std::string& text) {
    const Known<std::int64_t> found =
        TrainingConfig::parse(text, "run.yaml", {"context.mode"}).find("context.mode");
    return found ? std::to_string(*found) + " of " + found.origin() : found.origin();
  };
  EXPECT_EQ(mode("x: 1\ncontext:\n  a: {mode: 2}\n  mode: 1\n"), "1 of run.yaml:4: context.mode");
  EXPECT_EQ(mode("context: {mode: 0}\n---\na: 1\n"), "0 of run.yaml:1: context.mode");
  for (const char* text : {"mode: 1", "context.mode: {a: 1}", "x: {context: {mode: 1}}",
                           "context: [{mode: 1}]", "- context: {mode: 1}", "context: 1\nmode: 2"}) {
    EXPECT_THAT(mode(text), ::testing::Not(HasSubstr("1 of"))) << text;
  }
}

TEST(Setting, KeepsTheDefaultOfLaterReleasesUnlessItChanged) {
  Setting setting;
  setting.releases = {{*Release::parse("1.0"), 0}, {*Release::parse("1.7"), 1}};
  EXPECT_EQ(setting.default_since(*Release::parse("1.7")), 1);
  EXPECT_EQ(setting.default_since(*Release::parse("2.0")), 1);
  EXPECT_EQ(setting.default_since(*Release::parse("1.6")), std::nullopt);
  EXPECT_EQ(setting.default_since(*Release::parse("0.9")), std::nullopt);
}

TEST(TrainingConfig, ReadsTruthAsPyYamlDoes) {
  for (const char* text : {"True", "true", "TRUE", "yes", "On", "1"}) {
    EXPECT_EQ(value("a: " + std::string(text)), "1 of run.yaml:1: a") << text;
  }
  for (const char* text : {"False", "no", "off", "0"}) {
    EXPECT_EQ(value("a: " + std::string(text)), "0 of run.yaml:1: a") << text;
  }
  for (const char* text : {"", "~", "null"}) {
    EXPECT_EQ(value("a: " + std::string(text)), "") << text;
  }
  for (const char* text : {"'False'", "maybe", "1.5", "[True]", "{x: 1}"}) {
    EXPECT_THAT(value("a: " + std::string(text)), HasSubstr("expected True, False or a number"))
        << text;
  }
}

TEST(TrainingConfig, DoesNotChooseBetweenValues) {
  EXPECT_EQ(value("a: true\nx: {a: 1}\n"), "1 of run.yaml:1: a");
  const std::string differing = value("a: true\nx:\n  a: false\n");
  EXPECT_THAT(differing, HasSubstr("run.yaml:1 and run.yaml:3 have different values"));
  TrainingConfig both = config("a: true");
  both.add(TrainingConfig::parse("a: off", "other.yaml", {"a"}));
  EXPECT_THAT(both.find("a").origin(), HasSubstr("run.yaml:1 and other.yaml:1"));
}

TEST(TrainingConfig, TakesKeysWhereAnAnchorHasThem) {
  EXPECT_EQ(value("base: &base\n  a: 4\nmodel:\n  <<: *base\n  b: 5\n"), "4 of run.yaml:2: a");
  EXPECT_EQ(value("base: &base\n  a: 4\nmodel:\n  <<: *base\n  b: 5\n", "b"), "5 of run.yaml:5: b");
  EXPECT_EQ(value("? {x: 1}\n: a\nb: 2\n", "b"), "2 of run.yaml:3: b");
}

/// Each level names the one before ten times: 10^9 nodes, if aliases were followed.
TEST(TrainingConfig, IsNotBlownUpByAliases) {
  std::string text = "x0: &x0 [1]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string name = "*x" + std::to_string(i - 1);
    text += "x" + std::to_string(i) + ": &x" + std::to_string(i) + " [" + name;
    for (int k = 0; k < 9; ++k) text += ", " + name;
    text += "]\n";
  }
  EXPECT_EQ(value(text + "a: 9\n"), "9 of run.yaml:11: a");
}

TEST(TrainingConfig, RefusesWhatIsNoYaml) {
  for (const std::string& text :
       {std::string("a: [1"), std::string("a: b: c"), std::string("\t- x: ]"),
        std::string("a: *nothing"), std::string(100'000, '['), std::string(2 << 20, ' ')}) {
    EXPECT_THAT(refusal_of([&] { config(text); }), HasSubstr("run.yaml")) << text.substr(0, 20);
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "k:\n";
  EXPECT_THAT(refusal_of([&] { config(deep); }), HasSubstr("nested more than 64 deep"));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
