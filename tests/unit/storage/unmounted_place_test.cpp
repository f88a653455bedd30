// SPDX-License-Identifier: Apache-2.0
#include "storage/local/unmounted_place.h"

#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace reshardfs {
namespace {

class UnmountedPlace : public testing::Test {
 protected:
  std::string of(const std::string& path) const { return unmounted_place(path, fstab_, mounts_); }

  const test::TempDir directory_;
  const std::filesystem::path fstab_ = directory_.write("fstab",
                                                        "# a comment\n"
                                                        "/dev/a / ext4 defaults 0 1\n"
                                                        "/dev/b none swap sw 0 0\n"
                                                        "server:/ckpt /data nfs nofail 0 0\n"
                                                        "/dev/c /data/inner xfs defaults 0 0\n"
                                                        "/dev/d /with\\040space/ ext4 noauto 0 0\n"
                                                        "no entry\n");
  const std::filesystem::path mounts_ =
      directory_.write("mounts", "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\n");
};

TEST_F(UnmountedPlace, IsTheInnermostThatIsNotMounted) {
  EXPECT_EQ(of("/data"), "/data");
  EXPECT_EQ(of("/data/"), "/data");
  EXPECT_EQ(of("/data/a/../b/c.ckpt"), "/data");
  EXPECT_EQ(of("/data/inner/c.ckpt"), "/data/inner");
  EXPECT_EQ(of("/with space/c"), "/with space");
  EXPECT_EQ(of("/database/c.ckpt"), "");
  EXPECT_EQ(of("/home/c.ckpt"), "") << "the root is mounted";
}

TEST_F(UnmountedPlace, OfAPathThatIsMountedIsNone) {
  directory_.write("mounts", "/dev/a / ext4 rw 0 0\n/dev/c /data/inner xfs rw 0 0\n");
  EXPECT_EQ(of("/data/inner/c.ckpt"), "");
  EXPECT_EQ(of("/data/c.ckpt"), "/data");
}

TEST_F(UnmountedPlace, IsSeenThroughSymbolicLinks) {
  const std::string top = std::filesystem::canonical(directory_.path()).string();
  std::filesystem::create_directories(top + "/real/disk");
  std::filesystem::create_directory_symlink(top + "/real", top + "/link");
  directory_.write("fstab", "/dev/a " + top + "/link/disk ext4 defaults 0 0\n");
  EXPECT_EQ(of(top + "/link/disk/c.ckpt"), top + "/link/disk");
  EXPECT_EQ(of(top + "/link/../other/c.ckpt"), "");
  // The kernel's list has the name without links.
  directory_.write("mounts", "/dev/a " + top + "/real/disk ext4 rw 0 0\n");
  EXPECT_EQ(of(top + "/link/disk/c.ckpt"), "");
  directory_.write("fstab", "/dev/a " + top + "/real/disk ext4 defaults 0 0\n");
  directory_.write("mounts", "/dev/a / ext4 rw 0 0\n");
  EXPECT_EQ(of(top + "/link/disk/c.ckpt"), top + "/real/disk");
  directory_.write("fstab", "/dev/a " + top + "/link/disk ext4 defaults 0 0\n" + "/dev/a " + top +
                                "/real/disk ext4 defaults 0 0\n");
  EXPECT_EQ(of(top + "/link/disk/c.ckpt"), top + "/link/disk") << "the first of its names";
  directory_.write("fstab", "/dev/a " + top + "/real/disk ext4 defaults 0 0\n");
  // Not what the name alone says.
  EXPECT_EQ(of(top + "/link/disk/../../real/disk/c.ckpt"), top + "/real/disk");
  std::filesystem::create_directories(top + "/elsewhere/sub");
  std::filesystem::create_directory_symlink(top + "/elsewhere/sub", top + "/away");
  directory_.write("fstab", "/dev/a " + top + "/disk ext4 defaults 0 0\n");
  EXPECT_EQ(of(top + "/away/../disk/c.ckpt"), "") << "which is below elsewhere";
}

TEST_F(UnmountedPlace, NeedsBothLists) {
  EXPECT_EQ(unmounted_place("/data", directory_.path() / "none", mounts_), "");
  EXPECT_EQ(unmounted_place("/data", fstab_, directory_.path() / "none"), "");
}

TEST(MountCommand, IsForThisUser) {
  const std::string command = ::geteuid() == 0 ? "mount " : "sudo mount ";
  EXPECT_EQ(mount_command("/data"), command + "/data");
  EXPECT_EQ(mount_command("/with space"), command + "'/with space'");
}

}  // namespace
}  // namespace reshardfs
