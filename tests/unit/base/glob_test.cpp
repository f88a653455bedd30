// SPDX-License-Identifier: Apache-2.0
#include "base/text/glob.h"

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
