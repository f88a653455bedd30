// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/local/file_watch.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs::test {

/// A file, opened, of which somebody changes the change time.
class ChangeTime : public ::testing::Test {
 protected:
  void SetUp() override {
    const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (FileWatch::of(file.get()) == nullptr) {
      GTEST_SKIP() << "files in " << dir_.path() << " cannot be watched";
    }
    source_ = open_local_file(path_);
  }

  /// The times of a file have the clock of the kernel's ticks on some file systems.
  void next_tick() const {
    const std::int64_t before = change_time();
    do {
      ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
    } while (change_time() == before);
    source_->check_unchanged();
  }
  std::int64_t change_time() const {
    struct stat now {};
    if (::stat(path_.c_str(), &now) != 0) return 0;
    return static_cast<std::int64_t>(now.st_ctim.tv_sec) * 1'000'000'000 + now.st_ctim.tv_nsec;
  }
  void keep_times_of(const struct stat& before) const {
    const std::array<timespec, 2> times{before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
  }
  struct stat status() const {
    struct stat now {};
    EXPECT_EQ(::stat(path_.c_str(), &now), 0);
    return now;
  }
  void write_in_place() const {
    const struct stat before = status();
    std::fstream(path_, std::ios::in | std::ios::out) << "abc";
    keep_times_of(before);
  }
  void expect_unchanged() const {
    source_->check_unchanged();
    std::string bytes(10, '?');
    source_->read_at(0, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, "0123456789");
  }
  void expect_changed(const std::string& words = "been changed while it was in use") const {
    expect_error(ErrorKind::kChanged, {path_.filename(), words, "mount again"},
                 [&] { source_->check_unchanged(); });
  }

  const TempDir dir_;
  const std::filesystem::path path_ = dir_.write("a.ckpt", "0123456789");
  const std::filesystem::path other_ = dir_.path() / "b.ckpt";
  DescriptorPool without_places_{0, 1};
  ByteSourcePtr source_;
};

}  // namespace reshardfs::test
