// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_watch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::in_child;
using test::TempDir;

/// How many inodes the process watches.
std::size_t watched_inodes() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);) count += line.starts_with("inotify wd:");
  }
  return count;
}

/// Two watched files.
class FileWatchTest : public testing::Test {
 protected:
  using WatchPtr = std::shared_ptr<const FileWatch>;

  static WatchPtr watch(const std::filesystem::path& path) {
    return FileWatch::of(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).get());
  }
  void SetUp() override {
    if (one_ == nullptr) GTEST_SKIP() << "files in " << dir_.path() << " cannot be watched";
  }
  static void expect_news(const FileNews& news, bool written, bool maybe_written, bool altered) {
    EXPECT_EQ(news.written, written);
    EXPECT_EQ(news.maybe_written, maybe_written);
    EXPECT_EQ(news.altered, altered);
  }
  void alter_one() const { ASSERT_EQ(::chmod(path_.c_str(), 0600), 0); }

  const TempDir dir_;
  const std::filesystem::path path_ = dir_.write("one", "bytes");
  const std::filesystem::path other_path_ = dir_.write("other", "bytes");
  const WatchPtr one_ = watch(path_);
  const WatchPtr other_ = watch(other_path_);
};

TEST_F(FileWatchTest, ThereIsNoNewsAtFirst) {
  expect_news(one_->since(0), false, false, false);
}

TEST_F(FileWatchTest, TellsWritesFromOtherChanges) {
  const Descriptor writer(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::write(writer.get(), "x", 1), 1);
  const FileNews written = one_->since(0);
  expect_news(written, true, true, false);
  expect_news(one_->since(written.moment), false, false, false);
  alter_one();
  expect_news(one_->since(written.moment), false, false, true);
  expect_news(one_->since(0), true, true, true);
}

TEST_F(FileWatchTest, WhoeverMayHaveWrittenShowsWhenTheFileIsClosed) {
  ASSERT_EQ(::close(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)), 0);
  expect_news(one_->since(0), false, false, false);
  ASSERT_EQ(::close(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)), 0);
  expect_news(one_->since(0), false, true, false);
}

TEST_F(FileWatchTest, ANewNameIsAChange) {
  std::filesystem::rename(path_, dir_.path() / "new");
  expect_news(one_->since(0), false, false, true);
}

TEST_F(FileWatchTest, TellsFilesApartWhoseEventsComeTogether) {
  for (int i = 0; i < 3; ++i) {
    alter_one();
    ASSERT_EQ(::truncate(other_path_.c_str(), i), 0);
  }
  expect_news(one_->since(0), false, false, true);
  const FileNews others = other_->since(0);
  expect_news(others, true, true, false);
  alter_one();
  expect_news(other_->since(others.moment), false, false, false);
}

TEST_F(FileWatchTest, NewsThatWereLostMayBeAnyNews) {
  int room = 0;  // of the kernel's queue
  ASSERT_TRUE(std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> room);
  // The queue of this process loses nothing: it watches none of these.
  const auto altered = dir_.write("altered", "bytes");
  const auto written = dir_.write("written", "bytes");
  const auto quiet = dir_.write("quiet", "bytes");
  in_child([&] {
    const std::array<WatchPtr, 3> watches{watch(altered), watch(written), watch(quiet)};
    for (int i = 0; i < room; ++i) {  // two that are equal would be one
      ASSERT_EQ(::chmod(altered.c_str(), 0600), 0);
      ASSERT_EQ(::truncate(written.c_str(), i % 2), 0);
    }
    const FileNews lost = watches[2]->since(0);
    expect_news(lost, false, true, false);
    expect_news(watches[2]->since(lost.moment), false, false, false);
  });
}

TEST_F(FileWatchTest, EndsWithTheLastThatHasIt) {
  const std::size_t before = watched_inodes();
  WatchPtr third = watch(dir_.write("third", "bytes"));
  WatchPtr again = watch(dir_.path() / "third");
  EXPECT_EQ(watched_inodes(), before + 1);
  third = nullptr;
  EXPECT_EQ(watched_inodes(), before + 1);
  again = nullptr;
  EXPECT_EQ(watched_inodes(), before);
}

TEST_F(FileWatchTest, IsOneForAllWhoWatchAFile) {
  EXPECT_EQ(watch(path_), one_);
  std::filesystem::create_hard_link(path_, dir_.path() / "link");
  EXPECT_EQ(watch(dir_.path() / "link"), one_);
  EXPECT_NE(other_, one_);
}

TEST_F(FileWatchTest, AnotherWatchOfAFileWatchesOn) {
  const std::filesystem::path path = dir_.write("third", "bytes");
  for (int i = 0; i < 3; ++i) {
    const WatchPtr third = watch(path);
    expect_news(third->since(0), false, false, false);
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    expect_news(third->since(0), false, false, true);
  }
}

/// A file that is gone has no watch any more.
TEST_F(FileWatchTest, NoMoreNewsMayBeAnyNews) {
  std::filesystem::remove(path_);
  EXPECT_TRUE(one_->since(0).altered);
  const FileNews last = one_->since(0);
  expect_news(one_->since(last.moment), false, true, false);
}

TEST_F(FileWatchTest, AForkKeepsItsEventsToItself) {
  const auto instances = [] {
    return std::ranges::count_if(
        std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
          std::error_code gone;
          return std::filesystem::read_symlink(entry, gone) == "anon_inode:inotify";
        });
  };
  in_child([&] {
    const WatchPtr own = watch(path_);
    EXPECT_NE(own, nullptr);
    EXPECT_NE(own, one_);
    EXPECT_EQ(instances(), 1);
    const FileNews unknown = one_->since(7);
    expect_news(unknown, false, true, false);
    EXPECT_EQ(unknown.moment, 7U);
  });
}

TEST(FileWatch, IsOfAFileInMemory) {
  const Descriptor file(::memfd_create("watched", MFD_CLOEXEC));
  EXPECT_NE(FileWatch::of(file.get()), nullptr);
}

/// Not every change of such a file passes through this kernel's calls.
TEST(FileWatch, IsOnlyOfFilesWhoseWritersAllShow) {
  const Descriptor file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(FileWatch::of(file.get()), nullptr);
  EXPECT_EQ(FileWatch::of(-1), nullptr);
}

}  // namespace
}  // namespace reshardfs
