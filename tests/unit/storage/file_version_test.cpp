// SPDX-License-Identifier: Apache-2.0
#include "storage/file_version.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/local/file_watch.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::TempDir;

Descriptor opened(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

TEST(FileVersion, KnowsTheFileAgainUntilAnythingHasChanged) {
  const TempDir dir;
  const std::string path = dir.write("f", "bytes");
  const std::string other = dir.write("g", "bytes");
  const Descriptor file = opened(path);
  const FileVersion version(file.get(), path);
  EXPECT_TRUE(version.is_known_as(opened(path).get()));
  EXPECT_FALSE(version.is_known_as(opened(other).get()));
  EXPECT_FALSE(version.is_known_as(-1));
  std::filesystem::rename(other, path);
  EXPECT_FALSE(version.is_known_as(opened(path).get())) << "another file has its name";
  EXPECT_TRUE(std::ofstream(path, std::ios::app) << "more");
  EXPECT_FALSE(version.is_known_as(opened(path).get()));
}

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

TEST_F(ChangeTime, IsAcceptedForLinksNamesAndAttributes) {
  next_tick();
  std::filesystem::create_hard_link(path_, other_);
  expect_unchanged();
  std::filesystem::remove(other_);
  expect_unchanged();
  std::filesystem::rename(path_, other_);
  expect_unchanged();
  std::filesystem::rename(other_, path_);
  expect_unchanged();
  ASSERT_EQ(::chmod(path_.c_str(), 0400), 0);
  expect_unchanged();
  if (::setxattr(path_.c_str(), "user.note", "x", 1, 0) == 0) expect_unchanged();
}

TEST_F(ChangeTime, OfSeveralChangesIsAcceptedAtOnce) {
  for (int i = 0; i < 100; ++i) {
    std::filesystem::create_hard_link(path_, other_);
    std::filesystem::remove(other_);
  }
  expect_unchanged();
  expect_unchanged();
}

TEST_F(ChangeTime, OfAWriterIsNotAcceptedHoweverTheLinksChange) {
  next_tick();
  std::filesystem::create_hard_link(path_, other_);
  expect_unchanged();
  write_in_place();
  expect_changed();
  std::filesystem::remove(other_);
  expect_changed();
}

TEST_F(ChangeTime, OfAWriterBeforeALinkIsNotAccepted) {
  next_tick();
  write_in_place();
  std::filesystem::create_hard_link(path_, other_);
  expect_changed();
}

/// Changes within one tick of the clock may have the same time.
TEST_F(ChangeTime, OfALinkHidesNoWriterInTheSameTick) {
  for (int i = 0; i < 20; ++i) {
    source_ = open_local_file(path_);
    std::filesystem::create_hard_link(path_, other_);
    source_->check_unchanged();
    write_in_place();
    expect_changed();
    std::filesystem::remove(other_);
  }
}

TEST_F(ChangeTime, OfAFileThatWasJustWrittenHidesNoWriterInTheSameTick) {
  for (int i = 0; i < 20; ++i) {
    write_in_place();
    source_ = open_local_file(path_);
    source_->check_unchanged();
    write_in_place();
    expect_changed();
  }
}

TEST_F(ChangeTime, IsFinalOnceItWasRefused) {
  next_tick();
  const struct stat before = status();
  const std::array<timespec, 2> times{
      {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
  expect_changed();
  keep_times_of(before);
  expect_changed();
}

/// Directories change their names, and the files in them keep their times.
TEST_F(ChangeTime, OfAFileThatComesBackIsNotAcceptedOnceItWasRefused) {
  const auto place = dir_.write("d/a.ckpt", "0123456789").parent_path();
  dir_.write("e/a.ckpt", "0123456789");
  const auto settled = std::chrono::system_clock::now() + std::chrono::milliseconds(30);
  while (std::chrono::system_clock::now() < settled) std::this_thread::yield();
  source_ = open_local_file(place / "a.ckpt", without_places_);
  const auto exchange = [&] {
    std::filesystem::rename(place, dir_.path() / "away");
    std::filesystem::rename(dir_.path() / "e", place);
    std::filesystem::rename(dir_.path() / "away", dir_.path() / "e");
    without_places_.close_idle();
  };
  exchange();
  expect_changed("it is another file now");
  exchange();
  expect_changed("it is another file now");
}

TEST_F(ChangeTime, SetBackIsNotAccepted) {
  next_tick();
  struct stat before = status();
  before.st_mtim.tv_sec -= 1;
  keep_times_of(before);
  expect_changed();
}

TEST_F(ChangeTime, IsNoReasonToSayWhereThereIsABetterOne) {
  EXPECT_TRUE(std::ofstream(path_, std::ios::app) << "more");
  expect_changed("it has another size");
  source_ = open_local_file(path_);
  keep_times_of({});
  expect_changed("it has another modification time");
  source_ = open_local_file(path_, without_places_);
  without_places_.close_idle();
  std::ofstream(other_) << "0123456789more";
  std::filesystem::rename(other_, path_);
  expect_changed("it is another file now");
}

TEST_F(ChangeTime, OfATruncationAndBackIsNotAccepted) {
  next_tick();
  const struct stat before = status();
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  ASSERT_EQ(::truncate(path_.c_str(), 10), 0);
  keep_times_of(before);
  expect_changed();
}

/// The kernel tells of what is written through a map when the writer closes the file.
TEST_F(ChangeTime, OfAWriterThroughAMapIsNotAccepted) {
  next_tick();
  const struct stat before = status();
  const Descriptor writer(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  void* const map = ::mmap(nullptr, 10, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  static_cast<char*>(map)[3] = 'x';
  keep_times_of(before);
  expect_changed("a writer cannot be ruled out");
  ::munmap(map, 10);
  expect_changed();
}

TEST_F(ChangeTime, OfAWriterThroughAMapThatIsGoneIsNotAccepted) {
  next_tick();
  const struct stat before = status();
  {
    const Descriptor writer(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    void* const map = ::mmap(nullptr, 10, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0);
    ASSERT_NE(map, MAP_FAILED);
    static_cast<char*>(map)[3] = 'x';
    ::munmap(map, 10);
  }
  keep_times_of(before);
  expect_changed();
}

TEST_F(ChangeTime, OfADeletedFileIsAcceptedOnce) {
  next_tick();
  const Descriptor writer(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  const struct stat before = status();
  std::filesystem::remove(path_);
  expect_unchanged();
  expect_unchanged();
  ASSERT_EQ(::pwrite(writer.get(), "abc", 3, 0), 3);
  const std::array<timespec, 2> times{before.st_atim, before.st_mtim};
  ASSERT_EQ(::futimens(writer.get(), times.data()), 0);
  expect_changed();
}

TEST_F(ChangeTime, OfADeletedFileIsNotAcceptedAgainBesideAWriter) {
  next_tick();
  const Descriptor writer(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct stat before {};
  ASSERT_EQ(::fstat(writer.get(), &before), 0);
  std::filesystem::remove(path_);
  expect_unchanged();
  const std::array<timespec, 2> times{before.st_atim, before.st_mtim};
  struct stat now {};
  do {
    ASSERT_EQ(::futimens(writer.get(), times.data()), 0);
    ASSERT_EQ(::fstat(writer.get(), &now), 0);
  } while (now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
  expect_changed("a writer cannot be ruled out");
}

TEST_F(ChangeTime, OfAFileThatWasWrittenAndDeletedIsNotAccepted) {
  next_tick();
  write_in_place();
  std::filesystem::remove(path_);
  expect_changed();
}

TEST_F(ChangeTime, IsAcceptedByEachThatHasTheFileOpen) {
  next_tick();
  const ByteSourcePtr second = open_local_file(path_);
  std::filesystem::create_hard_link(path_, other_);
  expect_unchanged();
  second->check_unchanged();
  source_ = nullptr;
  ASSERT_EQ(::chmod(path_.c_str(), 0400), 0);
  second->check_unchanged();
}

TEST_F(ChangeTime, OfAFileOpenedAfterAWriteIsJudgedFromThenOn) {
  next_tick();
  write_in_place();
  expect_changed();
  source_ = open_local_file(path_);
  source_->check_unchanged();
  std::filesystem::create_hard_link(path_, other_);
  source_->check_unchanged();
}

TEST_F(ChangeTime, IsAcceptedOfAFileThatWasClosedInBetween) {
  source_ = open_local_file(path_, without_places_);
  without_places_.close_idle();
  std::filesystem::create_hard_link(path_, other_);
  expect_unchanged();
  without_places_.close_idle();
  write_in_place();
  expect_changed();
}

TEST_F(ChangeTime, IsAcceptedWhileManyThreadsLook) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) EXPECT_NO_THROW(expect_unchanged());
    });
  }
  for (int i = 0; i < 300; ++i) {
    std::filesystem::create_hard_link(path_, other_);
    std::filesystem::remove(other_);
  }
}

/// Runs `work` in a child. @return whether it returned true; 2 if it could not be tried.
template <typename Work>
int in_child(const Work& work) {
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
  EXPECT_EQ(in_child([&] { return changed(*source_); }), 3);
  expect_unchanged();
  EXPECT_EQ(in_child([&] {
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
    return in_child([&] {
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

}  // namespace
}  // namespace reshardfs
