// SPDX-License-Identifier: Apache-2.0
/// Versions of files in a process of its own: behind a fork, without watches, and on a disk that
/// this process alone sees.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

#include "change_time_fixture.h"
#include "storage/file_version.h"

namespace reshardfs {
namespace {

using test::ChangeTime;

/// Runs `work` in a child. @return whether it returned true; 2 if it could not be tried.
template <typename Work>
int code_in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      code = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int changed(const ByteSource& source) {
  try {
    source.check_unchanged();
    return 0;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kChanged ? 3 : 1;
  }
}

/// Its events would be missing in its parent.
TEST_F(ChangeTime, OfAnInheritedFileIsNotAcceptedInAChild) {
  next_tick();
  std::filesystem::create_hard_link(path_, other_);
  EXPECT_EQ(code_in_child([&] { return changed(*source_); }), 3);
  expect_unchanged();
  EXPECT_EQ(code_in_child([&] {
              const ByteSourcePtr own = open_local_file(path_);
              std::filesystem::remove(other_);
              return changed(*own);
            }),
            0);
  expect_unchanged();
}

TEST_F(ChangeTime, IsNotAcceptedWhereThereCanBeNoWatch) {
  constexpr int kSkipped = 77;
  const auto without_watches = [&](const auto& work) {
    return code_in_child([&] {
      if (::unshare(CLONE_NEWUSER) != 0) return kSkipped;
      std::ofstream limit("/proc/sys/user/max_inotify_instances");
      if (!(limit << "0" << std::flush)) return kSkipped;
      source_ = open_local_file(path_);
      work();
      return changed(*source_);
    });
  };
  const int linked = without_watches([&] { std::filesystem::create_hard_link(path_, other_); });
  if (linked == kSkipped) GTEST_SKIP() << "no user namespace with limits of its own can be made";
  EXPECT_EQ(linked, 3);
  std::filesystem::remove(other_);
  EXPECT_EQ(without_watches([] {}), 0);
  EXPECT_EQ(without_watches([&] { std::filesystem::rename(path_, other_); }), 3);
  std::filesystem::rename(other_, path_);
  // The last link is gone.
  EXPECT_EQ(without_watches([&] { std::filesystem::remove(path_); }), 0);
}

/// Mounts one where this process alone sees it.
bool mount_a_disk_of_whole_seconds(const std::filesystem::path& image,
                                   const std::filesystem::path& place) {
  std::filesystem::resize_file(image, 4 << 20);
  const std::string make = "mkfs.ext2 -q -I 128 " + image.string() + " > /dev/null 2>&1";
  const std::string mount = "mount -o loop " + image.string() + " " + place.string();
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         std::system((make + " && " + mount + " 2> /dev/null").c_str()) == 0;
}

TEST_F(ChangeTime, OfWholeSecondsHidesNoWriterInTheSameSecond) {
  constexpr int kSkipped = 77;
  const auto image = dir_.write("image", "");
  const auto disk = dir_.make_directory("disk");
  const int code = code_in_child([&] {
    if (!mount_a_disk_of_whole_seconds(image, disk)) return kSkipped;
    const auto seconds_of = [&] {
      struct stat now {};
      return ::stat((disk / "a.ckpt").c_str(), &now) == 0 ? now.st_ctim.tv_sec : -1;
    };
    while (true) {
      dir_.write("disk/a.ckpt", "0123456789");
      // Longer than a tick of other disks.
      const auto settled = std::chrono::system_clock::now() + std::chrono::milliseconds(30);
      while (std::chrono::system_clock::now() < settled) std::this_thread::yield();
      const std::time_t before = seconds_of();
      source_ = open_local_file(disk / "a.ckpt");
      source_->check_unchanged();
      std::fstream(disk / "a.ckpt", std::ios::in | std::ios::out) << "abc";
      if (seconds_of() == before) return changed(*source_);
    }
  });
  if (code == kSkipped) GTEST_SKIP() << "no file system of whole seconds can be mounted";
  EXPECT_EQ(code, 3);
}

}  // namespace
}  // namespace reshardfs
