// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::TempDir;

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
  EXPECT_TRUE(other_->since(0).written);
  EXPECT_FALSE(other_->since(0).altered);
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
  const pid_t child = ::fork();
  if (child == 0) {
    const WatchPtr own = watch(path_);
    const FileNews unknown = one_->since(7);
    ::_exit(own != nullptr && own != one_ && instances() == 1 && unknown.maybe_written &&
                    !unknown.written && unknown.moment == 7
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Not every change of such a file passes through this kernel's calls.
TEST(FileWatch, IsOnlyOfFilesWhoseWritersAllShow) {
  const Descriptor file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(FileWatch::of(file.get()), nullptr);
  EXPECT_EQ(FileWatch::of(-1), nullptr);
}

}  // namespace
}  // namespace reshardfs
