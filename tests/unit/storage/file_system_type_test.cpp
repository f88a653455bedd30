// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_system_type.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(FileSystemType, IsRemoteWhereItWaitsForOthers) {
  EXPECT_TRUE(is_remote_type(0x6969));       // NFS
  EXPECT_TRUE(is_remote_type(0x65735546));   // FUSE
  EXPECT_TRUE(is_remote_type(0xFF534D42));   // CIFS
  EXPECT_TRUE(is_remote_type(0x786F4256));   // VirtualBox shared folders
  EXPECT_FALSE(is_remote_type(0xEF53));      // ext4
  EXPECT_FALSE(is_remote_type(0x58465342));  // XFS
  EXPECT_FALSE(is_remote_type(0x01021994));  // tmpfs
}

}  // namespace
}  // namespace reshardfs
