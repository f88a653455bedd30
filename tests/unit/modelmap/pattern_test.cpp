// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"
#include "modelmap/pattern_index.h"
#include "support/cpu_time.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t three(const std::string&) {
  return 3;
}

/// "a=1 p=weight": what the captures take; "no" for another name.
std::string match(const std::string& text, const std::string& name) {
  const Pattern pattern = Pattern::parse(text);
  const auto values = pattern.match(name, pattern.numberings(three));
  if (!values) return "no";
  std::string out;
  for (std::size_t i = 0; i < values->size(); ++i) {
    out += (i == 0 ? "" : " ") + pattern.names()[i] + "=";
    out += (*values)[i].word.empty() ? std::to_string((*values)[i].number) : (*values)[i].word;
  }
  // What a pattern takes, it gives back.
  EXPECT_EQ(pattern.fill(*values, pattern.numberings(three)), name);
  return out;
}

TEST(Pattern, TakesWholeNames) {
  EXPECT_EQ(match("model.norm.weight", "model.norm.weight"), "");
  EXPECT_EQ(match("model.norm.weight", "model.norm.weights"), "no");
  EXPECT_EQ(match("model.norm.weight", "amodel.norm.weight"), "no");
  EXPECT_EQ(match("a.b", "axb"), "no");
  EXPECT_EQ(match("l.{i}", "l.12.w"), "no");
}

TEST(Pattern, TakesNumbersWithoutLeadingZeros) {
  EXPECT_EQ(match("l.{i}.w", "l.0.w"), "i=0");
  EXPECT_EQ(match("l.{i}.w", "l.123.w"), "i=123");
  EXPECT_EQ(match("l.{i}.w", "l.01.w"), "no");
  EXPECT_EQ(match("l.{i}.w", "l..w"), "no");
  EXPECT_EQ(match("l.{i}.w", "l.-1.w"), "no");
  EXPECT_EQ(match("l.{i}.w", "l.+1.w"), "no");
  EXPECT_EQ(match("{i}", "9223372036854775807"), "i=9223372036854775807");
  EXPECT_EQ(match("{i}", "9223372036854775808"), "no");
  EXPECT_EQ(match("{i}", "99999999999999999999999"), "no");
}

TEST(Pattern, TakesOffsetsAwayFromNumbers) {
  EXPECT_EQ(match("l.{i+layers}.w", "l.5.w"), "i=2");
  EXPECT_EQ(match("l.{i+layers}.w", "l.3.w"), "i=0");
  EXPECT_EQ(match("l.{i+layers}.w", "l.2.w"), "no");
  EXPECT_EQ(match("l.{i-layers}.w", "l.2.w"), "i=5");
  EXPECT_EQ(match("l.{i+2*layers+1}.w", "l.9.w"), "i=2");
  const Pattern pattern = Pattern::parse("l.{i-1}");
  EXPECT_EQ(pattern.fill({{0, ""}}, pattern.numberings(three)), std::nullopt);
}

TEST(Pattern, TakesMultiplesOfNumbers) {
  EXPECT_EQ(match("l.{2*i}.w", "l.6.w"), "i=3");
  EXPECT_EQ(match("l.{2*i}.w", "l.0.w"), "i=0");
  EXPECT_EQ(match("l.{2*i}.w", "l.7.w"), "no");
  EXPECT_EQ(match("l.{2*i+1}.w", "l.7.w"), "i=3");
  EXPECT_EQ(match("l.{2*i+1}.w", "l.0.w"), "no");
  EXPECT_EQ(match("l.{2*i+1}.w", "l.6.w"), "no");
  EXPECT_EQ(match("l.{2*i-1}.w", "l.5.w"), "i=3");
  EXPECT_EQ(match("l.{2*i-4}.w", "l.0.w"), "i=2");
  EXPECT_EQ(match("l.{layers*i+layers-1}.w", "l.8.w"), "i=2");
  EXPECT_EQ(match("l.{2*(layers+1)*i}.w", "l.16.w"), "i=2");
  EXPECT_EQ(match("l.{ 2*i+1}.w", "l.3.w"), "i=1");
  EXPECT_EQ(match("{2*i}.{2*i+1}", "4.5"), "i=2");
  EXPECT_EQ(match("{2*i}.{2*i+1}", "4.7"), "no");
  EXPECT_EQ(match("{4*i}", "9223372036854775804"), "i=2305843009213693951");
  const Pattern pattern = Pattern::parse("l.{2*i-4}");
  EXPECT_EQ(pattern.fill({{1, ""}}, pattern.numberings(three)), std::nullopt);
  EXPECT_EQ(pattern.fill({{std::int64_t{1} << 62, ""}}, pattern.numberings(three)), std::nullopt);
}

TEST(Pattern, TakesNumbersOfTwoCaptures) {
  EXPECT_EQ(match("l.{layers*i+j<layers}.w", "l.7.w"), "i=2 j=1");
  EXPECT_EQ(match("l.{layers*i+j<layers}.w", "l.0.w"), "i=0 j=0");
  EXPECT_EQ(match("l.{1*i+j<1}.w", "l.7.w"), "i=7 j=0");
  EXPECT_EQ(match("l.{2*i+j<2}.{j}.w", "l.7.1.w"), "i=3 j=1");
  EXPECT_EQ(match("l.{2*i+j<2}.{j}.w", "l.7.0.w"), "no");
  EXPECT_EQ(match("{j}.{i}.{2*i+j<2}", "1.3.7"), "j=1 i=3");
  EXPECT_EQ(match("{j}.{i}.{2*i+j<2}", "0.3.7"), "no");
  const Pattern pattern = Pattern::parse("l.{2*i+j<2}");
  EXPECT_EQ(pattern.fill({{1, ""}, {1, ""}}, pattern.numberings(three)), "l.3");
  EXPECT_EQ(pattern.fill({{1, ""}, {2, ""}}, pattern.numberings(three)), std::nullopt);
  EXPECT_EQ(pattern.fill({{INT64_MAX / 2, ""}, {1, ""}}, pattern.numberings(three)),
            "l.9223372036854775807");
}

/// What a plain loop over all values finds.
TEST(Pattern, TakesOfRandomNumbersWhatALoopDoes) {
  std::mt19937_64 random(20);
  for (int round = 0; round < 2000; ++round) {
    const auto factor = static_cast<std::int64_t>(1 + random() % 6);
    const auto offset = static_cast<std::int64_t>(random() % 15) - 7;
    const auto number = static_cast<std::int64_t>(random() % 60);
    std::string expected = "no";
    for (std::int64_t i = 0; i < 80; ++i) {
      if (factor * i + offset == number) expected = "i=" + std::to_string(i);
    }
    const std::string text = "a.{" + std::to_string(factor) + "*i" + (offset < 0 ? "" : "+") +
                             std::to_string(offset) + "}.b";
    EXPECT_EQ(match(text, "a." + std::to_string(number) + ".b"), expected) << text;
  }
}

TEST(Pattern, RefusesNumbersThatNoCaptureGives) {
  const auto refusal = [](const std::string& text) {
    return refusal_of([&] { Pattern::parse(text); });
  };
  EXPECT_THAT(refusal("l.{2*}"), HasSubstr("'{2*}' has no name behind '*'"));
  EXPECT_THAT(refusal("l.{layer*2}"), HasSubstr("the capture stands last in a product"));
  EXPECT_THAT(refusal("l.{*layer}"), HasSubstr("a number or a name is expected"));
  EXPECT_THAT(refusal("l.{2*layer+}"), HasSubstr("a number or a name is expected"));
  EXPECT_THAT(refusal("l.{layer+layer}"), HasSubstr("depends on 'layer', which is a capture"));
  EXPECT_THAT(refusal("l.{i}.{i*j}"), HasSubstr("depends on 'i', which is a capture"));
  const std::string two = "'<' in a capture has to be as in {n*i+j<n}";
  for (const char* text : {"{2*i+j<3}", "{i+j<2}", "{2*i-j<2}", "{layers*i+j<2}"}) {
    EXPECT_THAT(refusal(text), HasSubstr(two)) << text;
  }
  EXPECT_THAT(refusal("{2*i+2<2}"), HasSubstr("has no name in front of '<'"));
  EXPECT_THAT(refusal("{2*i+<2}"), HasSubstr("has no name in front of '<'"));
  EXPECT_THAT(refusal("{j*i+j<j}"), HasSubstr("depends on 'j', which is a capture"));
  const Pattern pattern = Pattern::parse("l.{(layers-3)*i}");
  EXPECT_THAT(refusal_of([&] { pattern.numberings(three); }),
              HasSubstr("the factor '(layers-3)' of {i} is 0, and must be at least 1"));
}

TEST(Pattern, TakesWords) {
  EXPECT_EQ(match("q.{p:weight|bias}", "q.bias"), "p=bias");
  EXPECT_EQ(match("q.{p:weight|bias}", "q.biases"), "no");
  EXPECT_EQ(match("w{w:[123]}.weight", "w2.weight"), "w=2");
  EXPECT_EQ(match("w{w:[123]}.weight", "w4.weight"), "no");
  EXPECT_EQ(match("{n:a|ab|abc}c", "abc"), "n=ab");
  EXPECT_EQ(match("{n:[a-c][^x]}", "bz"), "n=bz");
  EXPECT_EQ(match("{n:[a-c][^x]}", "bx"), "no");
  EXPECT_EQ(match("x{n:_ema|}", "x_ema"), "n=_ema");
  EXPECT_EQ(match("x{n:_ema|}", "x"), "n=0");
}

TEST(Pattern, TakesTheSameForACaptureThatStandsTwice) {
  EXPECT_EQ(match("{i}.{i}", "12.12"), "i=12");
  EXPECT_EQ(match("{i}.{i}", "12.13"), "no");
  EXPECT_EQ(match("{i}.{i+2}", "12.14"), "i=12");
  EXPECT_EQ(match("{p:a|b}{p:a|b}", "bb"), "p=b");
  EXPECT_EQ(match("{p:a|b}{p:a|b}", "ab"), "no");
  EXPECT_EQ(match("{i}{i}", "1212"), "i=12");
}

TEST(Pattern, TriesWhatCapturesSideBySideMayMean) {
  EXPECT_EQ(match("{a}{b}", "123"), "a=12 b=3");
  EXPECT_EQ(match("{a}0.w", "100.w"), "a=10");
  EXPECT_EQ(match("{a}{b}", "10"), "a=1 b=0");
}

TEST(Pattern, RefusesWhatIsNone) {
  for (const char* text :
       {"", "a{", "a}", "{}", "{1}", "{a b}", "{a:}", "{a:x*}", "{a:.}", "{a:(x)}", "{a:[}",
        "{a:[]}", "{a:[z-a]}", "{a+}", "{a+1+}", "{a}{a:x|y}", "{and}", "{a{b}}", "{a:x\\d}"}) {
    EXPECT_THAT(refusal_of([&] { Pattern::parse(text); }), HasSubstr("wrong")) << text;
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += "{c" + std::to_string(i) + "}.";
  EXPECT_THAT(refusal_of([&] { Pattern::parse(many); }), HasSubstr("captures"));
  std::string last;
  for (std::size_t i = 0; i + 1 < kMaxCaptures; ++i) last += "{c" + std::to_string(i) + "}.";
  EXPECT_EQ(Pattern::parse(last + "{a}").captures().size(), kMaxCaptures);
  EXPECT_THAT(refusal_of([&] { Pattern::parse(last + "{n*a+b<n}"); }),
              HasSubstr("more than 16 captures"));
  EXPECT_THAT(refusal_of([&] { Pattern::parse(std::string(1 << 20, 'a')); }), HasSubstr("longer"));
}

TEST(Pattern, ReadsHostileNamesInLittleTime) {
  const test::CpuTime taken;
  std::string text;
  for (int i = 0; i < 16; ++i) text += "{c" + std::to_string(i) + "}";
  const std::string digits(100'000, '1');
  EXPECT_EQ(match(text + "x", digits), "no");
  EXPECT_EQ(match(text, std::string(200, '1') + "x"), "no");
  std::string words;
  for (int i = 0; i < 16; ++i) words += "{w" + std::to_string(i) + ":a|aa|aaa}";
  EXPECT_EQ(match(words, std::string(40, 'a') + "b"), "no");
  std::string repeated;
  for (int i = 0; i < 8; ++i) repeated += "{c" + std::to_string(i) + "}";
  const Pattern twice = Pattern::parse(repeated + "." + repeated);
  EXPECT_THAT(refusal_of([&] {
                (void)twice.match(std::string(60, '1') + "." + std::string(59, '1') + "2",
                                  twice.numberings(three));
              }),
              ::testing::AnyOf("accepted", HasSubstr("too many ways")));
  EXPECT_LT(taken.seconds(), 2);
}

TEST(PatternIndex, FindsThePatternsThatTakeAName) {
  const std::vector<std::string> texts = {
      "a.{i}.w",  "a.{j}.{p:w|b}", "a.5.w", "b{w:[12]}.w", "{x}.{y}.w", "a.{i}.{z:[a-z][a-z][a-z]}",
      "a.{i+3}.w"};
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) patterns.push_back(Pattern::parse(text));
  PatternIndex index;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    index.add({&patterns[i], patterns[i].numberings(three), i, 0});
  }
  const auto takers = [&](const std::string& name) {
    std::vector<std::size_t> rules;
    for (const auto& match : index.matches(name)) rules.push_back(match.entry->rule);
    return rules;
  };
  EXPECT_THAT(takers("a.5.w"), ElementsAre(0, 1, 2, 6));
  EXPECT_THAT(takers("a.2.w"), ElementsAre(0, 1));
  EXPECT_THAT(takers("a.2.b"), ElementsAre(1));
  EXPECT_THAT(takers("b2.w"), ElementsAre(3));
  EXPECT_THAT(takers("4.5.w"), ElementsAre(4));
  EXPECT_THAT(takers("a.2.abc"), ElementsAre(5));
  EXPECT_THAT(takers("c"), ElementsAre());
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
