// SPDX-License-Identifier: Apache-2.0
#include "export/partial_file.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "memory_file.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t entries(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

/// Some megabytes for a directory, as root.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& path, const char* options) : path_(path) {
    mounted_ = ::mount("none", path.c_str(), "tmpfs", 0, options) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_ = false;
};

Folder folder_of(const fs::path& path) {
  return Folder::open(path);
}

/// While it lives, the thread's renameat2() knows no flags, as on NFS, and if asked for there are
/// no hard links either, as on FAT: by a filter of system calls, which a thread cannot take off.
void without_flags(bool links, const std::function<void()>& work) {
  std::jthread([&] {
    const auto refuse = [](int number, unsigned flags_argument, int error) {
      return std::vector<sock_filter>{
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 3),
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                   static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * flags_argument)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    };
    ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    std::vector<std::vector<sock_filter>> filters{refuse(SYS_renameat2, 4, EINVAL)};
    // Its first argument, a directory's descriptor, is not 0.
    if (!links) filters.push_back(refuse(SYS_linkat, 0, EPERM));
    for (std::vector<sock_filter>& filter : filters) {
      sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
      ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    }
    work();
  }).join();
}

TEST(PartialFile, HasItsNameOnlyWhenItIsCommitted) {
  const test::TempDir directory;
  const fs::path path = directory.path() / "a/b/file";
  {
    PartialFile file(folder_of(directory.path()).make("a/b"), "file", 10);
    file.write_at(5, bytes_of("56789"));
    EXPECT_FALSE(fs::exists(path));
    EXPECT_TRUE(fs::exists(directory.path() / "a/b/.file.reshardfs-partial"));
    file.write_at(0, bytes_of("01234"));
    file.sync();
    file.commit(false);
  }
  EXPECT_EQ(text_of(path), "0123456789");
  EXPECT_EQ(entries(path.parent_path()), 1U);
}

TEST(PartialFile, IsRemovedIfItIsNotCommitted) {
  const test::TempDir directory;
  { PartialFile(folder_of(directory.path()), "file", 10).write_at(0, bytes_of("x")); }
  EXPECT_EQ(entries(directory.path()), 0U);
}

TEST(PartialFile, ReplacesWhatAKilledRunHasLeft) {
  const test::TempDir directory;
  const fs::path victim = directory.write("victim", "keep me");
  fs::create_symlink(victim, directory.path() / ".file.reshardfs-partial");
  PartialFile file(folder_of(directory.path()), "file", 3);
  file.write_at(0, bytes_of("new"));
  file.commit(false);
  EXPECT_EQ(text_of(directory.path() / "file"), "new");
  EXPECT_EQ(text_of(victim), "keep me");
}

TEST(PartialFile, OfAProcessThatStillRunsStays) {
  const test::TempDir directory;
  const auto folder = [&] { return folder_of(directory.path()); };
  PartialFile first(folder(), "file", 3);
  const auto expect_refused = [](const auto& work) {
    test::expect_error(ErrorKind::kUsage, {"file", "another process is writing this file"}, work);
  };
  expect_refused([&] { PartialFile(folder(), "file", 3); });
  expect_refused([&] { PartialFile::resume(folder(), "file", 3); });
  EXPECT_TRUE(remove_partial_files(folder(), {"file"}, Writers::kOne).empty());
  first.write_at(0, bytes_of("one"));
  first.commit(false);
  EXPECT_EQ(text_of(directory.path() / "file"), "one");
  PartialFile(folder(), "file", 3).commit(true);
}

TEST(PartialFile, ReplacesAnotherFileOnlyIfItMay) {
  const test::TempDir directory;
  const fs::path path = directory.write("file", "old");
  {
    PartialFile file(folder_of(directory.path()), "file", 3);
    file.write_at(0, bytes_of("new"));
    test::expect_error(ErrorKind::kUsage, {"file"}, [&] { file.commit(false); });
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(entries(directory.path()), 1U);
  PartialFile file(folder_of(directory.path()), "file", 3);
  file.write_at(0, bytes_of("new"));
  file.commit(true);
  EXPECT_EQ(text_of(path), "new");
}

TEST(PartialFile, NeedsNoFileSystemThatKnowsTheFlagsOfRename) {
  for (const bool links : {true, false}) {
    const test::TempDir directory;
    const fs::path path = directory.path() / "file";
    without_flags(links, [&] {
      PartialFile file(folder_of(directory.path()), "file", 3);
      file.write_at(0, bytes_of("one"));
      file.commit(false);
      PartialFile other(folder_of(directory.path()), "file", 3);
      other.write_at(0, bytes_of("two"));
      test::expect_error(ErrorKind::kUsage, {"file", "exists already", "--force"},
                         [&] { other.commit(false); });
      EXPECT_EQ(text_of(path), "one");
      other.commit(true);
    });
    EXPECT_EQ(text_of(path), "two");
    EXPECT_EQ(entries(directory.path()), 1U);
  }
}

TEST(PartialFile, ReplacesNoDevice) {
  const test::TempDir directory;
  const fs::path path = directory.path() / "file";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  PartialFile file(folder_of(directory.path()), "file", 3);
  test::expect_error(ErrorKind::kUsage, {"file", "regular file"}, [&] { file.commit(true); });
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST(PartialFile, ManyWritersOfOneNameDoNotMix) {
  const test::TempDir directory;
  PartialFile first(folder_of(directory.path()), "file", 0, Writers::kMany);
  PartialFile second(folder_of(directory.path()), "file", 0, Writers::kMany);
  first.write_at(0, bytes_of("first"));
  second.write_at(0, bytes_of("second"));
  first.commit(false);
  test::expect_error(ErrorKind::kUsage, {"exists already"}, [&] { second.commit(false); });
  EXPECT_EQ(text_of(directory.path() / "file"), "first");
}

TEST(PartialFile, StaysInTheDirectoryThatItWasBegunIn) {
  const test::TempDir directory;
  fs::create_directory(directory.path() / "outside");
  PartialFile file(folder_of(directory.path()).make("inside"), "file", 3);
  fs::rename(directory.path() / "inside", directory.path() / "moved");
  fs::create_directory_symlink("outside", directory.path() / "inside");
  file.write_at(0, bytes_of("new"));
  file.commit(false);
  EXPECT_EQ(text_of(directory.path() / "moved/file"), "new");
  EXPECT_EQ(entries(directory.path() / "outside"), 0U);
}

TEST(PartialFile, HasTheModeThatTheUserAskedFor) {
  const test::TempDir directory;
  const mode_t old = ::umask(027);
  PartialFile(folder_of(directory.path()), "file", 0).commit(false);
  ::umask(old);
  struct stat found {};
  ASSERT_EQ(::stat((directory.path() / "file").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0640U);
}

TEST(PartialFile, FindsANameForLongNames) {
  EXPECT_EQ(partial_name("checkpoint_0.ckpt"), ".checkpoint_0.ckpt.reshardfs-partial");
  for (const std::size_t length : {236U, 237U, 255U}) {
    EXPECT_LE(partial_name(std::string(length, 'x')).size(), 255U);
  }
  EXPECT_NE(partial_name(std::string(254, 'x') + "a"), partial_name(std::string(254, 'x') + "b"));
}

TEST(PartialFile, RemovesWhatOthersHaveLeftOfTheSameFiles) {
  const test::TempDir directory;
  const Folder folder = folder_of(directory.path());
  const std::string long_name(250, 'x');
  for (const Writers writers : {Writers::kOne, Writers::kMany}) {
    PartialFile file(folder_of(directory.path()), "file", 0, writers);
    PartialFile other(folder_of(directory.path()), "other", 0, writers);
    PartialFile of_long_name(folder_of(directory.path()), long_name, 0, writers);
    ASSERT_EQ(entries(directory.path()), 3U);
    remove_partial_files(folder, {"file", long_name});
    EXPECT_EQ(entries(directory.path()), 1U);
    // Its writer learns of it.
    try {
      file.commit(true);
      FAIL() << "the file is gone";
    } catch (const Error& error) {
      EXPECT_EQ(error.os_error(), ENOENT);
    }
    other.commit(true);
    fs::remove(directory.path() / "other");
  }
  for (const char* name : {"file", ".file", ".file.0123456789abcdef", "file.reshardfs-partial",
                           ".filed.reshardfs-partial", ".file.0123.reshardfs-partial"}) {
    directory.write(name, "mine");
  }
  remove_partial_files(folder, {"file"});
  EXPECT_EQ(entries(directory.path()), 6U);
}

TEST(PublishText, ReplacesTheFileInOneStep) {
  const test::TempDir directory;
  directory.write("file", "old");
  publish_text(folder_of(directory.path()), "file", "new text");
  EXPECT_EQ(text_of(directory.path() / "file"), "new text");
  publish_text(folder_of(directory.path()), "file", "");
  EXPECT_EQ(text_of(directory.path() / "file"), "");
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(PartialFile, SaysThatTheDiskIsFullAndLeavesNothing) {
  const test::TempDir directory;
  const SmallDisk disk(directory.path(), "size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "nothing can be mounted here";
  const std::string block = test::varied_bytes(1 << 19);
  test::expect_error(ErrorKind::kIo, {"file", "No space", "run the same command again"}, [&] {
    PartialFile file(folder_of(directory.path()), "file", 4 << 19);
    for (std::uint64_t i = 0; i < 4; ++i) file.write_at(i << 19U, bytes_of(block));
  });
  EXPECT_EQ(entries(directory.path()), 0U);
}

TEST(PartialFile, ReportsAFileSizeLimit) {
  const test::TempDir directory;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit low{1000, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  test::expect_error(ErrorKind::kIo, {"file", "too large", "ulimit -f (now 1000 bytes)"},
                     [&] { const PartialFile file(folder_of(directory.path()), "file", 5000); });
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(entries(directory.path()), 0U);
}

}  // namespace
}  // namespace reshardfs
