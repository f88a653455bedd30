// SPDX-License-Identifier: Apache-2.0
#include "base/posix/mount_table.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(MountTable, ReadsLinesWithAnyNumberOfOptionalFields) {
  const auto entries = parse_mount_table(
      "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
      "40 22 0:35 / /mnt/a ro,nosuid,nodev - fuse.reshardfs /data/ckpt ro,user_id=0\n"
      "41 22 0:36 / /mnt/b ro shared:7 master:2 - fuse.reshardfs x ro\n");
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].type, "ext4");
  EXPECT_EQ(entries[1].id, 40);
  EXPECT_EQ(entries[1].device, "0:35");
  EXPECT_EQ(entries[1].mountpoint, "/mnt/a");
  EXPECT_EQ(entries[1].type, kMountType);
  EXPECT_EQ(entries[1].source, "/data/ckpt");
  EXPECT_EQ(entries[2].mountpoint, "/mnt/b");
  EXPECT_EQ(entries[2].type, kMountType);
}

TEST(MountTable, UndoesTheKernelsEscapes) {
  const auto entries = parse_mount_table(
      R"(40 22 0:35 / /mnt/a\040b\134c\011d\012e\043f ro - fuse.reshardfs /s,r\040c ro)");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].mountpoint, "/mnt/a b\\c\td\ne#f");
  EXPECT_EQ(entries[0].source, "/s,r c");
}

TEST(MountTable, KeepsBackslashesThatAreNoEscapes) {
  const auto entries = parse_mount_table(R"(40 22 0:35 / /a\9\04 ro - t s\1 ro)");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].mountpoint, R"(/a\9\04)");
  EXPECT_EQ(entries[0].source, R"(s\1)");
}

TEST(MountTable, LeavesOutWhatIsNoMountLine) {
  for (const char* text : {"", "\n\n", "x", "1 2 3 4 5 6", "1 2 3 4 5 6 -", "1 2 3 4 5 6 - t",
                           "x 22 0:35 / /a ro - t s ro", "1 2 3 4 5 - t s"}) {
    EXPECT_TRUE(parse_mount_table(text).empty()) << text;
  }
}

TEST(MountTable, KnowsTheMountsOfThisProcess) {
  const auto proc = mount_at("/proc");
  ASSERT_TRUE(proc);
  EXPECT_EQ(proc->type, "proc");
  EXPECT_FALSE(mount_at("/proc/self"));
  EXPECT_FALSE(mount_at("/no/such/place"));
}

}  // namespace
}  // namespace reshardfs
