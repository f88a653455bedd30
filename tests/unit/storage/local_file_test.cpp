// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "base/process/resource_limits.h"
#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::TempDir;

std::string read(const ByteSource& source, std::uint64_t offset, std::size_t count) {
  std::string out(count, '?');
  source.read_at(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

std::uint64_t failures() {
  return counters().values().sources[static_cast<std::size_t>(SourceKind::kFile)].errors;
}

TEST(LocalFile, ReadsAnyRange) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  const ByteSourcePtr source = open_local_file(path);
  EXPECT_EQ(source->size(), 10U);
  EXPECT_EQ(source->name(), path.string());
  EXPECT_GT(source->mtime_ns(), 1'500'000'000'000'000'000);
  EXPECT_EQ(read(*source, 3, 4), "3456");
  EXPECT_EQ(read(*source, 0, 10), "0123456789");
  EXPECT_EQ(read(*source, 10, 0), "");
  source->check_unchanged();
}

TEST(LocalFile, LendsTheFileThatItReads) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  DescriptorPool without_places(0, 1);
  for (const ByteSourcePtr& source :
       {open_local_file(path), open_local_file(path, without_places)}) {
    const auto descriptor = source->descriptor();
    ASSERT_NE(descriptor, nullptr);
    struct stat lent {};
    struct stat there {};
    ASSERT_EQ(::fstat(descriptor->get(), &lent), 0);
    ASSERT_EQ(::stat(path.c_str(), &there), 0);
    EXPECT_EQ(lent.st_ino, there.st_ino);
  }
}

TEST(LocalFile, CountsWhatItReadsAndTheChangesThatItSees) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  const ByteSourcePtr source = open_local_file(path);
  const CounterValues before = counters().values();
  read(*source, 3, 4);
  read(*source, 0, 10);
  read(*source, 10, 0);
  read(*source, 9, 1);
  source->check_unchanged();
  EXPECT_EQ(failures(), before.sources[static_cast<std::size_t>(SourceKind::kFile)].errors);
  std::filesystem::resize_file(path, 5);
  EXPECT_THROW(read(*source, 0, 10), Error);
  EXPECT_THROW(source->check_unchanged(), Error);
  const CounterValues after = counters().values();
  EXPECT_EQ(after.source_reads() - before.source_reads(), 4U);
  EXPECT_EQ(after.source_bytes() - before.source_bytes(), 20U);
  EXPECT_EQ(after.source_changes - before.source_changes, 2U);
}

TEST(LocalFile, RefusesARangeThatLeavesTheFile) {
  const TempDir dir;
  const ByteSourcePtr source = open_local_file(dir.write("a.ckpt", "0123456789"));
  expect_error(ErrorKind::kBadInput, {"a.ckpt", "offset 8", "has only 10"},
               [&] { read(*source, 8, 3); });
  expect_error(ErrorKind::kBadInput, {"a.ckpt"}, [&] { read(*source, 11, 0); });
  expect_error(ErrorKind::kBadInput, {"a.ckpt"}, [&] { read(*source, ~0ULL, 2); });
}

TEST(LocalFile, RefusesWhatIsNoRegularFile) {
  const TempDir dir;
  expect_error(ErrorKind::kMissing, {"absent.ckpt", "no such file"},
               [&] { open_local_file(dir.path() / "absent.ckpt"); });
  expect_error(ErrorKind::kBadInput, {"is a directory"}, [&] { open_local_file(dir.path()); });
  expect_error(ErrorKind::kBadInput, {"/dev/null", "regular"},
               [] { open_local_file("/dev/null"); });
  const auto fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_error(ErrorKind::kBadInput, {"fifo", "regular"}, [&] { open_local_file(fifo); });
  const auto file = dir.write("a", "x");
  expect_error(ErrorKind::kMissing, {"no such file"}, [&] { open_local_file(file / "below"); });
}

/// Whether a file is opened while this lives.
class OpeningsOf {
 public:
  explicit OpeningsOf(const std::filesystem::path& path) {
    EXPECT_GE(::inotify_add_watch(opened_.get(), path.c_str(), IN_OPEN), 0);
  }
  bool any() const {
    inotify_event event{};
    const bool has = ::read(opened_.get(), &event, sizeof(event)) >= 0;
    EXPECT_TRUE(has || errno == EAGAIN);
    return has;
  }

 private:
  const Descriptor opened_{::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
};

/// To open a device, even for a moment, may begin what cannot be undone.
TEST(LocalFile, DoesNotOpenWhatIsNoRegularFile) {
  const TempDir dir;
  const auto fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const OpeningsOf openings(fifo);
  EXPECT_THROW(open_local_file(fifo), Error);
  EXPECT_FALSE(openings.any());
}

/// The rest of the process may have opened more than was left to it.
TEST(LocalFile, IsOpenedWhereTheLastDescriptorsAreShared) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  DescriptorPool pool(0, 1);
  const ByteSourcePtr other = open_local_file(dir.write("b.ckpt", "x"), pool);
  other->check_unchanged();
  ASSERT_EQ(pool.kept(), 1U);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<Descriptor> all;
  while (all.empty() || all.back()) all.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(errno, EMFILE);
  EXPECT_NO_THROW(open_local_file(path, pool));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(LocalFile, ClosesNoOthersWhereThatIsOfNoUse) {
  const TempDir dir;
  DescriptorPool pool(0, 1);
  const ByteSourcePtr other = open_local_file(dir.write("b.ckpt", "x"), pool);
  EXPECT_THROW(open_local_file(dir.path() / "absent", pool), Error);
  EXPECT_EQ(pool.kept(), 1U);
}

TEST(LocalFile, SaysWhatHasFailed) {
  const TempDir dir;
  const ByteSourcePtr source = open_local_file(dir.write("a.ckpt", "0123456789"));
  const std::uint64_t before = failures();
  const Descriptor directory(::open(dir.path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_GE(::dup3(directory.get(), source->descriptor()->get(), O_CLOEXEC), 0);
  expect_error(ErrorKind::kIo, {"a.ckpt", "offset 2", "read"}, [&] { read(*source, 2, 4); });
  EXPECT_EQ(failures(), before + 1);
  ASSERT_EQ(::close(source->descriptor()->get()), 0);
  expect_error(ErrorKind::kIo, {"a.ckpt", "examine"}, [&] { source->check_unchanged(); });
}

/// Another descriptor could help only where a server has forgotten the file.
TEST(LocalFile, OfADiskIsNotReadAgainThroughAnotherDescriptor) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  const ByteSourcePtr source = open_local_file(path);
  const Descriptor for_writing(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_GE(::dup3(for_writing.get(), source->descriptor()->get(), O_CLOEXEC), 0);
  const auto fails_once = [&] {
    const std::uint64_t before = failures();
    expect_error(ErrorKind::kIo, {"a.ckpt", "offset 2", "read"}, [&] { read(*source, 2, 4); });
    EXPECT_EQ(failures(), before + 1);
  };
  fails_once();
  std::filesystem::remove(path);
  fails_once();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const OpeningsOf openings(path);
  fails_once();
  EXPECT_FALSE(openings.any()) << "that of a device could have effects";
}

TEST(LocalFile, IsOpenedAgainOnlyWhereAServerMayHaveForgottenIt) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  const ByteSourcePtr source = open_local_file(path);
  const OpeningsOf openings(path);
  const Descriptor directory(::open(dir.path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_GE(::dup3(directory.get(), source->descriptor()->get(), O_CLOEXEC), 0);
  expect_error(ErrorKind::kIo, {"a.ckpt", "directory"}, [&] { read(*source, 2, 4); });
  EXPECT_FALSE(openings.any());
}

/// A daemon leaves the directory in which it was started.
TEST(LocalFile, OfARelativePathIsOpenedAgainFromAnotherDirectory) {
  const TempDir dir;
  dir.write("a.ckpt", "0123456789");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  DescriptorPool pool(0, 1);
  const ByteSourcePtr source = open_local_file("a.ckpt", pool);
  EXPECT_EQ(pool.kept(), 1U);
  std::filesystem::current_path(before);
  pool.close_idle();
  EXPECT_EQ(read(*source, 3, 4), "3456");
  EXPECT_EQ(source->name(), "a.ckpt");
}

TEST(LocalFile, ThatIsOpenedAgainMustBeTheSame) {
  const TempDir dir;
  const auto path = dir.write("d/a.ckpt", "0123456789");
  DescriptorPool pool(0, 1);
  const ByteSourcePtr source = open_local_file(path, pool);
  const auto read_again = [&](ErrorKind kind, const char* words) {
    pool.close_idle();
    expect_error(kind, {"a.ckpt", words}, [&] { read(*source, 2, 4); });
  };
  std::filesystem::remove(path);
  read_again(ErrorKind::kChanged, "removed or renamed");
  dir.write("d/a.ckpt", "abcdefghij");
  read_again(ErrorKind::kChanged, "mount again");
  std::filesystem::remove(path);
  std::filesystem::create_symlink("a.ckpt", path);  // to itself
  read_again(ErrorKind::kIo, "open");
  std::filesystem::remove_all(dir.path() / "d");
  dir.write("d", "no directory");
  read_again(ErrorKind::kChanged, "removed or renamed");
}

TEST(LocalFile, GivesBackItsPlaceAndItsDescriptor) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "x");
  DescriptorPool pool(1, 1);
  for (int i = 0; i < 2; ++i) {
    const ByteSourcePtr with_place = open_local_file(path, pool);
    EXPECT_EQ(pool.kept(), 0U);
    const ByteSourcePtr without = open_local_file(path, pool);
    EXPECT_EQ(pool.kept(), 1U);
  }
  EXPECT_EQ(pool.kept(), 0U);
}

TEST(LocalFile, RefusesASocket) {
  const TempDir dir;
  const auto path = dir.path() / "s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  expect_error(ErrorKind::kBadInput, {"regular"}, [&] { open_local_file(path); });
  ::close(fd);
}

TEST(LocalFile, IsNotInheritedByOtherPrograms) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "x");
  const ByteSourcePtr source = open_local_file(path);
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != path) continue;
    found = true;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_TRUE(found);
}

TEST(LocalFile, SaysThatItHasBecomeShorter) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  const ByteSourcePtr source = open_local_file(path);
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  EXPECT_EQ(read(*source, 0, 4), "0123");
  const std::uint64_t before = failures();
  expect_error(ErrorKind::kChanged, {"a.ckpt", "offset 4", "become shorter", "mount again"},
               [&] { read(*source, 2, 4); });
  EXPECT_EQ(failures(), before + 1);
  expect_error(ErrorKind::kChanged, {"a.ckpt", "become shorter", "mount again"},
               [&] { source->check_unchanged(); });
}

TEST(LocalFile, SeesThatItHasBeenWritten) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  const auto time = std::filesystem::last_write_time(path);
  const ByteSourcePtr source = open_local_file(path);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  dir.write("a.ckpt", "abcdefghij");
  std::filesystem::last_write_time(path, time);  // the change time still tells
  expect_error(ErrorKind::kChanged, {"a.ckpt", "changed while", "mount again"},
               [&] { source->check_unchanged(); });
}

TEST(LocalFile, KeepsADeletedFile) {
  const TempDir dir;
  const auto path = dir.write("a.ckpt", "0123456789");
  const ByteSourcePtr source = open_local_file(path);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::filesystem::rename(dir.write("new", "new"), path);
  source->check_unchanged();
  EXPECT_EQ(read(*source, 0, 10), "0123456789");
}

TEST(LocalFile, MayBeReadByManyThreads) {
  const TempDir dir;
  std::string content;
  for (int i = 0; i < 10'000; ++i) content += static_cast<char>(i * 7);
  const ByteSourcePtr source = open_local_file(dir.write("a.ckpt", content));
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < 1000; ++i) EXPECT_EQ(read(*source, i, 50), content.substr(i, 50));
    });
  }
}

TEST(OpenFileLimit, IsRaisedWhenNeeded) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 300;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  raise_open_file_limit(8);
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, 300U);
  raise_open_file_limit(200);
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace reshardfs
