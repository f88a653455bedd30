// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/mountpoint.h"

#include <cerrno>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "fuse/mounting/unmount.h"
#include "support/errors.h"
#include "unit/fuse/own_mounts.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using testing::EndsWith;
using testing::HasSubstr;

class Mountpoint : public test::OwnMounts {
 protected:
  void SetUp() override {
    fs::create_directories(root / "source" / "rank_0");
    fs::create_directory(root / "mnt");
  }

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

  const fs::path& root = root_;
  std::string text;
};

/// Of these, those that mount.
class MountpointOfAMount : public Mountpoint {
 protected:
  void SetUp() override {
    OwnMounts::SetUp();
    Mountpoint::SetUp();
  }

  const fs::path place_ = root / "mnt";
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

TEST_F(Mountpoint, WhatCannotBeLookedAtIsTold) {
  EXPECT_EQ(refused("", root / "source"), ErrorKind::kUsage);
  EXPECT_THAT(text, HasSubstr("the path of the mount point is empty"));
  fs::create_symlink("round", root / "round");
  std::ofstream(root / "file") << "x";
  for (const fs::path& path : {root / "round", root / "file" / "mnt"}) {
    EXPECT_EQ(refused(path, root / "source", true), ErrorKind::kIo);
    EXPECT_THAT(text, HasSubstr("look at the mount point"));
  }
  EXPECT_EQ(refused(root / "mnt", root / "round"), ErrorKind::kIo);
  EXPECT_THAT(text, HasSubstr("look at the source"));
  for (const char* name : {"none", "round"}) {
    SCOPED_TRACE(name);
    expect_error(ErrorKind::kIo, {"list the mount point"}, [&] { check_empty(root / name); });
    expect_error(ErrorKind::kIo, {"look at the mount point"},
                 [&] { real_mountpoint(root / name); });
  }
}

/// It is not told to make it.
TEST_F(Mountpoint, OneThatIsMissingMustBeApartFromTheSource) {
  fs::create_directory_symlink("source", root / "link");
  test::in_child([this] {
    fs::current_path(root / "source");
    for (const fs::path& missing : {root / "source/mnt", root / "link/mnt", fs::path("mnt")}) {
      EXPECT_EQ(refused(missing, root / "source"), ErrorKind::kUsage);
      EXPECT_THAT(text, HasSubstr("lies inside the source " + (root / "source").string()));
    }
  });
}

TEST_F(Mountpoint, IsApartFromAServer) {
  EXPECT_NO_THROW(check_mountpoint(root / "mnt", "http://127.0.0.1:1/a", false));
}

TEST_F(Mountpoint, IsKnownByItsRealPath) {
  fs::create_directory_symlink("mnt", root / "link");
  EXPECT_EQ(real_mountpoint(root / "link" / ".." / "link"), root / "mnt");
  EXPECT_EQ(real_mountpoint("/dev/fd/1000"), "/dev/fd/1000");
}

TEST_F(Mountpoint, OneProcessMountsAtATime) {
  {
    const MountPlace place(root / "mnt");
    const MountPlace other(root / "source");
    expect_error(ErrorKind::kUsage, {root / "mnt", "another process is mounting here right now"},
                 [this] { const MountPlace again(root / "mnt"); });
  }
  const MountPlace place(root / "mnt");
  const MountPlace descriptor("/dev/fd/1000");
  const MountPlace same_descriptor("/dev/fd/1000");
}

TEST_F(MountpointOfAMount, HasNoOtherOneOfReshardfs) {
  inside([this] {
    mount_memory(place_);
    check_mountpoint(place_, root / "source", false);
    errno = ENOTCONN;  // of something before
    check_mountpoint(place_, root / "source", true);
    const test::UnservedMount mount(place_);
    expect_error(ErrorKind::kUsage,
                 {"a reshardfs mount is here already", "reshardfs umount " + place_.string()},
                 [this] { check_empty(place_); });
    check_empty("/dev/fd/" + std::to_string(mount.device()));
    check_mountpoint("/dev/fd/" + std::to_string(mount.device()), root / "source", false);
  });
}

TEST_F(MountpointOfAMount, IsInNoneWhoseProcessHasEnded) {
  const auto expect_dead = [this] {
    for (const fs::path& dead : {place_, place_ / "a", place_ / "a/b"}) {
      EXPECT_EQ(refused(dead, root / "source"), ErrorKind::kUsage);
      EXPECT_THAT(text, HasSubstr("the process of the mount here has ended"));
      EXPECT_THAT(text, EndsWith("fusermount3 -u " + place_.string()));
    }
  };
  inside([&] {
    { const test::UnservedMount mount(place_); }
    expect_dead();
  });
  inside([&] {
    {
      const test::AnsweredMount mount(place_);
      EXPECT_TRUE(fs::is_directory(place_));
    }
    EXPECT_TRUE(fs::is_directory(place_)) << "the kernel has forgotten it";
    expect_dead();
  });
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
