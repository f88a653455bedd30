// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/text.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WrappedLines, BreakAtBlanks) {
  EXPECT_THAT(wrapped_lines("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped_lines("one two three", 80), ElementsAre("one two three"));
  EXPECT_THAT(wrapped_lines("a immeasurable b", 4), ElementsAre("a", "immeasurable", "b"));
  EXPECT_THAT(wrapped_lines("", 4), IsEmpty());
}

}  // namespace
}  // namespace reshardfs
