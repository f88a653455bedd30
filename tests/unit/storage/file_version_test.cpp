// SPDX-License-Identifier: Apache-2.0
#include "storage/file_version.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "change_time_fixture.h"
#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::ChangeTime;
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

}  // namespace
}  // namespace reshardfs
