// SPDX-License-Identifier: Apache-2.0
#include "check/words_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(WordsDiff, NamesKeys) {
  StatedWords a;
  a.header = {{"same", "1"}, {"left", "1"}, {"other", "1"}, {"moved", "x"}};
  a.ambiguous = {"several"};
  StatedWords b;
  b.header = {{"same", "1"}, {"right", "1"}, {"other", "2"}, {"several", "1"}};
  b.index = {{"moved", "\"x\""}};
  const WordsDiff diff = diff_words(a, b);
  EXPECT_THAT(diff.only_in_a, ElementsAre("left"));
  EXPECT_THAT(diff.only_in_b, ElementsAre("right"));
  EXPECT_THAT(diff.different, ElementsAre("other", "several"));
  EXPECT_TRUE(diff_words(a, a).empty());
}

TEST(WordsDiff, ComparesACountWhereBothHaveOne) {
  StatedWords a;
  a.index = {{"total_parameters", "5"}};
  EXPECT_TRUE(diff_words(a, {}).empty());
  EXPECT_TRUE(diff_words({}, a).empty());
  StatedWords b;
  b.index = {{"total_parameters", "6"}};
  EXPECT_THAT(diff_words(a, b).different, ElementsAre("total_parameters"));
}

}  // namespace
}  // namespace reshardfs
