// SPDX-License-Identifier: Apache-2.0
#include "export/partial_file.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

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

TEST(PartialFile, HasItsNameOnlyWhenItIsCommitted) {
  const test::TempDir directory;
  const fs::path path = directory.path() / "a/b/file";
  {
    PartialFile file(path, 10);
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
  { PartialFile(directory.path() / "file", 10).write_at(0, bytes_of("x")); }
  EXPECT_EQ(entries(directory.path()), 0U);
}

TEST(PartialFile, ReplacesWhatAKilledRunHasLeft) {
  const test::TempDir directory;
  const fs::path victim = directory.write("victim", "keep me");
  fs::create_symlink(victim, directory.path() / ".file.reshardfs-partial");
  PartialFile file(directory.path() / "file", 3);
  file.write_at(0, bytes_of("new"));
  file.commit(false);
  EXPECT_EQ(text_of(directory.path() / "file"), "new");
  EXPECT_EQ(text_of(victim), "keep me");
}

TEST(PartialFile, ReplacesAnotherFileOnlyIfItMay) {
  const test::TempDir directory;
  const fs::path path = directory.write("file", "old");
  {
    PartialFile file(path, 3);
    file.write_at(0, bytes_of("new"));
    test::expect_error(ErrorKind::kUsage, {"file"}, [&] { file.commit(false); });
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(entries(directory.path()), 1U);
  PartialFile file(path, 3);
  file.write_at(0, bytes_of("new"));
  file.commit(true);
  EXPECT_EQ(text_of(path), "new");
}

TEST(PartialFile, HasTheModeThatTheUserAskedFor) {
  const test::TempDir directory;
  const mode_t old = ::umask(027);
  PartialFile(directory.path() / "file", 0).commit(false);
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

TEST(PartialFile, SaysThatTheDiskIsFullAndLeavesNothing) {
  const test::TempDir directory;
  const SmallDisk disk(directory.path(), "size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "nothing can be mounted here";
  const std::string block = test::varied_bytes(1 << 19);
  test::expect_error(ErrorKind::kIo, {"file", "No space", "run the same command again"}, [&] {
    PartialFile file(directory.path() / "file", 4 << 19);
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
  test::expect_error(ErrorKind::kIo, {"file", "too large"},
                     [&] { const PartialFile file(directory.path() / "file", 5000); });
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(entries(directory.path()), 0U);
}

}  // namespace
}  // namespace reshardfs
