// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "base/posix/directory_stream.h"
#include "base/posix/file_lock.h"
#include "base/posix/read_write.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(Descriptor, ClosesWhatItHasAndKeepsErrno) {
  int number = -1;
  {
    Descriptor first(::open("/", O_PATH | O_CLOEXEC));
    ASSERT_TRUE(first);
    number = first.get();
    Descriptor second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is promised
    first = std::move(second);
    EXPECT_EQ(first.get(), number);
    EXPECT_TRUE(is_open(number));
    errno = EDOM;
  }
  EXPECT_EQ(errno, EDOM);
  EXPECT_FALSE(is_open(number));
  Descriptor given(::open("/", O_PATH | O_CLOEXEC));
  number = given.release();
  EXPECT_FALSE(given);
  EXPECT_EQ(::close(number), 0);
}

TEST(Descriptor, OpensNoLinkAndWaitsForNobody) {
  const test::TempDir place;
  ASSERT_EQ(::mkfifo((place.path() / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", place.path() / "link");
  const Descriptor directory(::open(place.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Descriptor pipe = open_in(directory.get(), "pipe", O_RDONLY);
  ASSERT_TRUE(pipe);
  ASSERT_TRUE(pipe.status());
  EXPECT_TRUE(S_ISFIFO(pipe.status()->st_mode));
  EXPECT_NE(::fcntl(pipe.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_FALSE(open_in(directory.get(), "link", O_RDONLY));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(Descriptor().status());
  EXPECT_EQ(errno, EBADF);
}

TEST(ReadWrite, GoesOnUntilTheEnd) {
  const Descriptor file(::memfd_create("test", MFD_CLOEXEC));
  const std::string text = "0123456789";
  EXPECT_EQ(write_fully(file.get(), 2, std::as_bytes(std::span(text))), 0);
  std::string read(20, '?');
  EXPECT_EQ(read_fully(file.get(), 3, std::as_writable_bytes(std::span(read))), 9U);
  EXPECT_EQ(read.substr(0, 9), "123456789");
  std::array<char, 4> one{};
  std::array<char, 5> two{};
  std::vector<iovec> both{{one.data(), one.size()}, {two.data(), two.size()}};
  EXPECT_EQ(read_fully(file.get(), 2, std::span(both)), 0);
  EXPECT_EQ(std::string(one.data(), one.size()) + std::string(two.data(), two.size()), "012345678");
  both = {{one.data(), one.size()}, {two.data(), two.size()}};
  EXPECT_EQ(read_fully(file.get(), 4, std::span(both)), EBADMSG);
  EXPECT_FALSE(read_fully(-1, 0, std::as_writable_bytes(std::span(read))));
  EXPECT_EQ(write_fully(-1, 0, std::as_bytes(std::span(text))), EBADF);
}

TEST(ReadWrite, TakesAllOfAPipeOrWhatThereIsRoomFor) {
  Pipe pipe;
  EXPECT_EQ(write_all(pipe.writer.get(), std::string(40'000, 'a')), 0);
  std::string text = "b";
  EXPECT_EQ(read_to_end(pipe.reader.get(), text, 10), 0);
  EXPECT_GE(text.size(), 10U);
  EXPECT_LT(text.size(), 40'000U);
  { const Descriptor closed = std::move(pipe.writer); }
  EXPECT_EQ(read_to_end(pipe.reader.get(), text), 0);
  EXPECT_EQ(text, "b" + std::string(40'000, 'a'));
  EXPECT_EQ(read_to_end(-1, text), EBADF);
}

TEST(ReadWrite, ReadsFilesWithoutASize) {
  EXPECT_NE(text_of_file("/proc/self/status").find("\nPid:\t" + std::to_string(::getpid())),
            std::string::npos);
  EXPECT_EQ(text_of_file("/proc/self/nothing"), "");
  EXPECT_EQ(errno, ENOENT);
}

TEST(DirectoryStream, HasAllNamesButTheDots) {
  const test::TempDir place;
  for (const char* name : {"a", "b", "..c"}) std::ofstream(place.path() / name) << "x";
  DirectoryStream stream(Descriptor(::open(place.path().c_str(), O_RDONLY | O_CLOEXEC)));
  ASSERT_TRUE(stream);
  EXPECT_TRUE(is_open(stream.descriptor()));
  std::set<std::string> names;
  while (const dirent* entry = stream.next()) names.emplace(entry->d_name);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(names, (std::set<std::string>{"a", "b", "..c"}));
  EXPECT_FALSE(DirectoryStream(Descriptor()));
  EXPECT_FALSE(DirectoryStream(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC))));
  EXPECT_EQ(errno, ENOTDIR);
}

TEST(OpenDescriptors, AreThoseOfThisProcess) {
  const Descriptor one(::open("/", O_PATH | O_CLOEXEC));
  const std::vector<int> all = open_descriptors();
  EXPECT_EQ(std::count(all.begin(), all.end(), one.get()), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), STDERR_FILENO), 1);
}

TEST(FileLock, IsSharedOrExclusive) {
  const test::TempDir place;
  const std::string path = place.path() / "file";
  const auto open = [&] {
    return Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  };
  const Descriptor one = open();
  const Descriptor two = open();
  EXPECT_EQ(try_lock(one.get(), LockMode::kShared), LockState::kTaken);
  EXPECT_EQ(try_lock(two.get(), LockMode::kShared), LockState::kTaken);
  EXPECT_EQ(try_lock(one.get()), LockState::kHeldElsewhere);
  {
    const Descriptor three = open();
    EXPECT_FALSE(FileLock::take(three.get(), std::chrono::milliseconds(0), {}));
  }
  EXPECT_EQ(try_lock(-1), LockState::kUnsupported);
}

}  // namespace
}  // namespace reshardfs
