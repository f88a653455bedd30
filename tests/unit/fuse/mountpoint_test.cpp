// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/mountpoint.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "reshardfs/error.h"

#include "fuse/mounting/unmount.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Mountpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "reshardfs-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root = pattern;
    fs::create_directories(root / "source" / "rank_0");
    fs::create_directory(root / "mnt");
  }
  void TearDown() override { fs::remove_all(root); }

  /// The error's kind, and its text in `text`.
  ErrorKind refused(const fs::path& mountpoint, const fs::path& source, bool allow = false) {
    try {
      check_mountpoint(mountpoint, source, allow);
    } catch (const Error& error) {
      text = error.what();
      return error.kind();
    }
    ADD_FAILURE() << mountpoint << " was accepted";
    return ErrorKind::kInternal;
  }

  fs::path root;
  std::string text;
};

TEST_F(Mountpoint, AnEmptyDirectoryBesideTheSourceIsAccepted) {
  check_mountpoint(root / "mnt", root / "source", false);
  check_mountpoint(root / "mnt/", root / "source/", false);
  fs::create_directory(root / "source2");  // begins with the same letters, is another directory
  check_mountpoint(root / "source2", root / "source", false);
}

TEST_F(Mountpoint, MissingOnesAreNamedWithACommand) {
  EXPECT_EQ(refused(root / "none", root / "source"), ErrorKind::kMissing);
  EXPECT_THAT(text, HasSubstr("mkdir -p " + (root / "none").native()));
}

TEST_F(Mountpoint, FilesAreRefused) {
  std::ofstream(root / "file") << "x";
  EXPECT_EQ(refused(root / "file", root / "source"), ErrorKind::kUsage);
}

TEST_F(Mountpoint, NonEmptyOnesNeedToBeAllowed) {
  std::ofstream(root / "mnt" / "file") << "x";
  EXPECT_EQ(refused(root / "mnt", root / "source"), ErrorKind::kUsage);
  EXPECT_THAT(text, HasSubstr("--nonempty"));
  check_mountpoint(root / "mnt", root / "source", true);
}

TEST_F(Mountpoint, InsideTheSourceIsRefused) {
  fs::create_directory(root / "source" / "mnt");
  EXPECT_EQ(refused(root / "source" / "mnt", root / "source"), ErrorKind::kUsage);
  EXPECT_EQ(refused(root / "source", root / "source", true), ErrorKind::kUsage);
  EXPECT_EQ(refused(root / "mnt" / ".." / "source" / "mnt", root / "source"), ErrorKind::kUsage);
}

TEST_F(Mountpoint, AroundTheSourceIsRefused) {
  EXPECT_EQ(refused(root, root / "source", true), ErrorKind::kUsage);
  EXPECT_EQ(refused(root, root / "source" / "not-there-yet", true), ErrorKind::kUsage);
  EXPECT_EQ(refused("/", root / "source", true), ErrorKind::kUsage);
}

TEST_F(Mountpoint, LinksAreSeenThrough) {
  fs::create_directory(root / "source" / "mnt");
  fs::create_directory_symlink(root / "source", root / "link");
  EXPECT_EQ(refused(root / "link" / "mnt", root / "source"), ErrorKind::kUsage);
  EXPECT_EQ(refused(root / "source" / "mnt", root / "link"), ErrorKind::kUsage);
}

TEST_F(Mountpoint, ASourceFileIsNoDirectoryToBeInside) {
  std::ofstream(root / "model.ckpt") << "x";
  check_mountpoint(root / "mnt", root / "model.ckpt", false);
}

TEST_F(Mountpoint, UnmountingWhatIsNotMountedIsAUsageError) {
  for (const fs::path& path : {root / "mnt", root / "none", fs::path("/proc"), fs::path("/")}) {
    try {
      unmount(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    }
  }
}

}  // namespace
}  // namespace reshardfs
