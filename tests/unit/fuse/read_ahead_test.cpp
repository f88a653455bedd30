// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/read_ahead.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(ReadAhead, IsThatOfAnAnsweringSourceIfNothingIsKnown) {
  EXPECT_EQ(read_ahead_for("/nowhere/at/all"), 1024U);
  EXPECT_EQ(read_ahead_for("/proc"), 1024U);
}

}  // namespace
}  // namespace reshardfs
