// SPDX-License-Identifier: Apache-2.0
#include "base/text/glob.h"

#include <fnmatch.h>

#include <cstddef>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

std::string repeated(const std::string& piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

TEST(Glob, MatchesWholeNames) {
  EXPECT_TRUE(glob_match("layers.*.w[qk]", "layers.0.attention.wq"));
  EXPECT_TRUE(glob_match("*", "a.b/c"));
  EXPECT_TRUE(glob_match("a?", "ab"));
  EXPECT_FALSE(glob_match("a", "ab"));
  EXPECT_FALSE(glob_match("layers.*.w[qk]", "layers.0.wv"));
}

/// Each would take longer than there is time if every way to share the name among the stars were
/// tried.
TEST(Glob, TakesNoLongerForManyStars) {
  const std::string name(4096, 'a');
  for (const char* piece : {"*a", "*[a]", "*?", "*a?", "*[!b]"}) {
    EXPECT_FALSE(glob_match(repeated(piece, 100) + "*b", name)) << piece;
    EXPECT_FALSE(glob_match(repeated(piece, 100) + "[b]", name)) << piece;
    EXPECT_TRUE(glob_match(repeated(piece, 100) + "*", name)) << piece;
  }
  EXPECT_FALSE(glob_match("*" + repeated("[", 2000) + "b\\]", repeated("[", 4096)));
}

TEST(Glob, MatchesCharactersOfUtf8) {
  EXPECT_TRUE(glob_match("[é]1", "é1"));
  EXPECT_FALSE(glob_match("[é]1", "éé1"));
  EXPECT_TRUE(glob_match("?1", "é1"));
  EXPECT_FALSE(glob_match("??1", "é1"));
  EXPECT_TRUE(glob_match("[!a]1", "é1"));
  EXPECT_TRUE(glob_match("[à-ÿ]?", "é€"));
  EXPECT_FALSE(glob_match("[a-z]1", "é1"));
  EXPECT_TRUE(glob_match("*\\é", "€é"));
  EXPECT_TRUE(glob_match("[€-𝄞]", "𝄞"));
}

TEST(Glob, TakesEachByteThatIsNoUtf8ForItself) {
  EXPECT_TRUE(glob_match("a\xff?", "a\xff\xc3"));
  EXPECT_TRUE(glob_match("[\x80-\xff]", "\xc3"));
  EXPECT_FALSE(glob_match("[\x80-\xff]", "é"));  // it is U+00E9
  EXPECT_FALSE(glob_match("\xe9", "é"));
}

TEST(Glob, KnowsClassesOfAscii) {
  EXPECT_TRUE(glob_match("layers.[[:digit:]].w[![:upper:]_]", "layers.7.wq"));
  EXPECT_FALSE(glob_match("[[:alpha:]]", "é"));
  EXPECT_TRUE(glob_match("[[:other:]", ":"));
}

TEST(Glob, EndsSetsWhereTheyEnd) {
  EXPECT_EQ(glob_set_end("a[]\\]b]c", 1), 7U);
  EXPECT_EQ(glob_set_end("a[[:alpha:]]", 1), 12U);
  EXPECT_EQ(glob_set_end("a[!]", 1), 1U);
}

/// ASCII alone, as fnmatch() matches it in the "C" locale, which a program is in that sets none.
TEST(Glob, MatchesAsciiAsThePlainLocaleDoes) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto text_of = [&](const std::string& letters, std::size_t most) {
    std::string text;
    for (std::size_t i = random() % (most + 1); i > 0; --i)
      text += letters[random() % letters.size()];
    return text;
  };
  std::size_t matching = 0;
  for (int round = 0; round < 200'000; ++round) {
    const std::string pattern = text_of("aabbc-*?[]!^\\[]", 9);
    const std::string text = text_of("aabbc-*?[]!^\\", 5);
    // A '[' without an end stands for itself; with glibc only if no range is open behind it.
    const bool ends_in_range = pattern.ends_with('-') || pattern.ends_with("-\\");
    if (ends_in_range && pattern.find('[') != std::string::npos) continue;
    const bool expected = ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
    ASSERT_EQ(glob_match(pattern, text), expected)
        << "'" << pattern << "' '" << text << "', seed " << seed;
    if (expected) ++matching;
  }
  EXPECT_GT(matching, 1000U);
}

TEST(Glob, HasTheClassesOfThePlainLocale) {
  for (const char* name : {"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print",
                           "punct", "space", "upper", "xdigit"}) {
    const std::string pattern = "[[:" + std::string(name) + ":]]";
    for (char c = 1; c > 0; ++c) {
      const std::string text(1, c);
      EXPECT_EQ(glob_match(pattern, text), ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0)
          << name << " " << static_cast<int>(c);
      if (c == 127) break;
    }
  }
}

TEST(NameFilter, TakesWhatIsIncludedAndNotExcluded) {
  const NameFilter filter{{"layers.*", "head"}, {"*.bias"}};
  EXPECT_TRUE(filter.takes("layers.0.weight"));
  EXPECT_TRUE(filter.takes("head"));
  EXPECT_FALSE(filter.takes("layers.0.bias"));
  EXPECT_FALSE(filter.takes("embedding"));
  EXPECT_TRUE(NameFilter{}.takes("anything"));
}

}  // namespace
}  // namespace reshardfs
