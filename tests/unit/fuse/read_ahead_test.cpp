// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fuse/mounting/mount_options.h"

namespace reshardfs {
namespace {

TEST(ReadAhead, IsThatOfAnAnsweringSourceIfNothingIsKnown) {
  EXPECT_EQ(read_ahead_for("/nowhere/at/all"), 1024U);
  EXPECT_EQ(read_ahead_for("/proc"), 1024U);
}

}  // namespace
}  // namespace reshardfs
