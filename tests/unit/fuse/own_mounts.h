// SPDX-License-Identifier: Apache-2.0
/// For tests that mount, in namespaces that end with them.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

#include "base/posix/descriptor.h"
#include "base/posix/mount_table.h"
#include "fuse/mounting/own_namespaces.h"
#include "support/in_child.h"
#include "support/temp_dir.h"
#include "unit/fuse/fake_kernel.h"

namespace reshardfs::test {

/// A FUSE mount whose requests nobody answers; a dead one when this ends.
class UnservedMount {
 public:
  explicit UnservedMount(std::filesystem::path place, const std::string& source = "/source",
                         const std::string& type = std::string(kMountType))
      : place_(std::move(place)) {
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0";
    EXPECT_EQ(::mount(source.c_str(), place_.c_str(), type.c_str(), MS_NOSUID | MS_NODEV,
                      options.c_str()),
              0)
        << errno;
  }

  int device() const { return device_.get(); }
  const std::filesystem::path& place() const { return place_; }
  MountEntry entry() const { return mount_at(place_).value_or(MountEntry{}); }

 private:
  const Descriptor device_{::open("/dev/fuse", O_RDWR | O_CLOEXEC)};
  const std::filesystem::path place_;
};

/// A FUSE mount of an empty directory, whose first two requests libfuse answers: that for the
/// agreement, and one more. The kernel keeps the attributes of the directory.
class AnsweredMount {
 public:
  explicit AnsweredMount(const std::filesystem::path& place) : mount_(place) {
    fuse_custom_io io{};
    io.read = [](int device, void* buffer, std::size_t size, void*) {
      return ::read(device, buffer, size);
    };
    io.writev = [](int device, iovec* pieces, int count, void*) {
      return ::writev(device, pieces, count);
    };
    EXPECT_EQ(fuse_session_custom_io(session_.get(), &io, ::dup(mount_.device())), 0);
    answering_ = std::jthread([this] {
      session_.process_one();
      session_.process_one();
    });
  }

 private:
  static const fuse_lowlevel_ops& operations() {
    static const fuse_lowlevel_ops those = [] {
      fuse_lowlevel_ops all{};
      all.getattr = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) {
        struct stat directory {};
        directory.st_mode = S_IFDIR | 0755;
        fuse_reply_attr(request, &directory, 3600);
      };
      return all;
    }();
    return those;
  }

  const UnservedMount mount_;
  BareSession session_{operations(), nullptr};
  std::jthread answering_;
};

/// A directory for mounts of child processes that are root in namespaces of their own.
class OwnMounts : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_possible()) GTEST_SKIP() << "no namespace to mount in, or no /dev/fuse";
  }

  static void inside(const std::function<void()>& work) {
    in_child([&] {
      enter_own_namespaces();
      work();
    });
  }

  std::filesystem::path directory(const std::string& name) const {
    return directory_.make_directory(name);
  }
  static bool is_mounted(const std::filesystem::path& place) { return mount_at(place).has_value(); }
  static void mount_memory(const std::filesystem::path& place, unsigned long flags = 0) {
    ASSERT_EQ(::mount("none", place.c_str(), "tmpfs", flags, nullptr), 0) << errno;
  }

  const TempDir directory_;
  const std::filesystem::path root_ = std::filesystem::canonical(directory_.path());

 private:
  static bool is_possible() {
    static const bool possible = [] {
      const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
      const pid_t child = ::fork();
      if (child == 0) {
        ::_exit(device && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0
                    ? 0
                    : 1);
      }
      int status = -1;
      ::waitpid(child, &status, 0);
      return status == 0;
    }();
    return possible;
  }
};

}  // namespace reshardfs::test
