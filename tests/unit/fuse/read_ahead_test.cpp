// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_ahead.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(ReadAhead, IsLongerWhereTheSourceWaits) {
  EXPECT_TRUE(is_remote(0x6969));       // NFS
  EXPECT_TRUE(is_remote(0x65735546));   // FUSE
  EXPECT_TRUE(is_remote(0xFF534D42));   // CIFS
  EXPECT_FALSE(is_remote(0xEF53));      // ext4
  EXPECT_FALSE(is_remote(0x58465342));  // XFS
  EXPECT_FALSE(is_remote(0x01021994));  // tmpfs
}

TEST(ReadAhead, IsThatOfAnAnsweringSourceIfNothingIsKnown) {
  EXPECT_EQ(read_ahead_for("/nowhere/at/all"), 1024U);
  EXPECT_EQ(read_ahead_for("/proc"), 1024U);
}

}  // namespace
}  // namespace reshardfs
