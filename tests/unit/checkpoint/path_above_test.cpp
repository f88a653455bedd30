// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "checkpoint/ranks/rank_place.h"

namespace reshardfs {
namespace {

TEST(PathAbove, AsTheUserWouldWriteIt) {
  EXPECT_EQ(path_above("a/b"), "a");
  EXPECT_EQ(path_above("a/b/"), "a");
  EXPECT_EQ(path_above("a/../b/c"), "b");
  EXPECT_EQ(path_above("a"), "");
  EXPECT_EQ(path_above("."), "./..");
  EXPECT_EQ(path_above(".."), "../..");
  EXPECT_EQ(path_above("/a"), "/");
}

}  // namespace
}  // namespace reshardfs
