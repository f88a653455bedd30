// SPDX-License-Identifier: Apache-2.0
#include "base/text/equal_reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::ElementsAre;

TEST(EqualReasons, AreToldOnce) {
  EXPECT_THAT(names_by_reason({}), ElementsAre());
  EXPECT_THAT(names_by_reason({{"a", "it is cut off"}}), ElementsAre("'a' (it is cut off)"));
  EXPECT_THAT(names_by_reason({{"l.0.w", "one"}, {"b", "two"}, {"l.1.w", "one"}, {"c", "one"}}),
              ElementsAre("'l.{0,1}.w', 'c' (one)", "'b' (two)"));
}

}  // namespace
}  // namespace reshardfs
