// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "fuse/mounting/mountpoint.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

TEST(SamePlace, FollowsLinksAboveAndAtTheEnd) {
  const test::TempDir directory;
  const fs::path root = fs::canonical(directory.path());
  fs::create_directories(root / "a" / "mnt");
  fs::create_directories(root / "a" / "other");
  fs::create_directory_symlink("a", root / "link");
  fs::create_directory_symlink(root / "a" / "mnt", root / "to_mnt");
  fs::create_directory_symlink("to_mnt", root / "to_link");
  fs::create_directory_symlink("round", root / "round");
  const fs::path mountpoint = root / "a" / "mnt";
  for (const fs::path& same : {mountpoint, mountpoint / "", root / "link" / "mnt", root / "to_mnt",
                               root / "to_link", root / "a" / "other" / ".." / "mnt"}) {
    EXPECT_TRUE(leads_to_mount(same, mountpoint)) << same;
  }
  for (const fs::path& other : {root / "a" / "other", root / "a", root / "none" / "mnt",
                                root / "round", mountpoint / "below", fs::path("/")}) {
    EXPECT_FALSE(leads_to_mount(other, mountpoint)) << other;
  }
}

TEST(SamePlace, FollowsAsManyLinksAsTheKernel) {
  const test::TempDir directory;
  const fs::path root = fs::canonical(directory.path());
  fs::create_directory(root / "0");
  for (int i = 1; i <= 41; ++i) {
    fs::create_directory_symlink(std::to_string(i - 1), root / std::to_string(i));
  }
  EXPECT_TRUE(fs::is_directory(root / "40"));
  EXPECT_TRUE(leads_to_mount(root / "40", root / "0"));
  EXPECT_FALSE(leads_to_mount(root / "41", root / "0"));
}

TEST(SamePlace, ADescriptorIsWhateverItWasGivenAs) {
  EXPECT_TRUE(leads_to_mount("/anywhere", "/dev/fd/5"));
}

}  // namespace
}  // namespace reshardfs
