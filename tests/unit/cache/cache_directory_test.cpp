// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "cache_files.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::CacheInDirectory;
using test::expect_error;
using test::TempDir;

constexpr std::uint64_t kSize = 64 << 20;

struct Tree {
  TempDir dir;
  fs::path own = dir.path() / fmt::format("reshardfs-{}", ::geteuid());

  void expect_refused(ErrorKind kind, const std::string& word) const {
    expect_error(kind, {word, "another directory"}, [&] { BlockCache::open({dir.path(), kSize}); });
  }
};

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

TEST(CacheDirectory, IsItsOwnersAlone) {
  const mode_t before = ::umask(0);
  const CacheInDirectory files;
  const fs::path record = files.put_file("a", 1);
  ::umask(before);
  for (const auto& entry : fs::recursive_directory_iterator(files.own())) {
    EXPECT_EQ(mode_of(entry.path()), entry.is_directory() ? 0700U : 0600U) << entry.path();
  }
  EXPECT_EQ(mode_of(files.own()), 0700U);
  EXPECT_EQ(mode_of(files.own().parent_path()), 0700U);
  EXPECT_EQ(mode_of(record), 0600U);
}

TEST(CacheDirectory, IsMadeWithThoseAboveIt) {
  const TempDir dir;
  const auto cache = BlockCache::open({dir.path() / "a" / "b" / "c", kSize});
  EXPECT_EQ(cache->directory().parent_path(), dir.path() / "a" / "b" / "c");
  EXPECT_TRUE(fs::is_directory(cache->directory()));
}

TEST(CacheDirectory, MayBeSharedByUsers) {
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms::all | fs::perms::sticky_bit);
  const auto cache = BlockCache::open({dir.path(), kSize});
  EXPECT_EQ(mode_of(cache->directory()), 0700U);
  EXPECT_EQ(mode_of(dir.path()), 01777U);
}

TEST(CacheDirectory, RefusesOneThatOthersMayEnter) {
  for (const unsigned mode : {0770U, 0755U, 0701U, 0704U, 0777U}) {
    const Tree tree;
    fs::create_directory(tree.own);
    fs::permissions(tree.own, static_cast<fs::perms>(mode));
    tree.expect_refused(ErrorKind::kUsage, fmt::format("has mode {:04o}", mode));
  }
}

TEST(CacheDirectory, RefusesOneOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const Tree tree;
  fs::create_directory(tree.own);
  fs::permissions(tree.own, fs::perms::owner_all);
  ASSERT_EQ(::chown(tree.own.c_str(), 12345, 0), 0);
  tree.expect_refused(ErrorKind::kUsage, "belongs to another user");
}

TEST(CacheDirectory, FollowsNoLink) {
  const TempDir elsewhere;
  fs::permissions(elsewhere.path(), fs::perms::owner_all);
  {
    const Tree tree;
    fs::create_symlink(elsewhere.path(), tree.own);
    tree.expect_refused(ErrorKind::kUsage, "is not a directory");
  }
  for (const std::string name : {"0", "a", "f", "filling"}) {
    const Tree tree;
    BlockCache::open({tree.dir.path(), kSize});
    fs::remove(tree.own / name);
    fs::create_symlink(elsewhere.path(), tree.own / name);
    tree.expect_refused(ErrorKind::kUsage, "is not a directory");
  }
  for (const std::string name : {"held", "sweep"}) {
    const Tree tree;
    BlockCache::open({tree.dir.path(), kSize});
    fs::remove(tree.own / name);
    fs::create_symlink(elsewhere.path() / "file", tree.own / name);
    tree.expect_refused(ErrorKind::kUsage, "is not a file");
    fs::remove(tree.own / name);
    ASSERT_EQ(::mkfifo((tree.own / name).c_str(), 0600), 0);
    tree.expect_refused(ErrorKind::kUsage, "is not a file");
  }
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

TEST(CacheDirectory, RefusesAFile) {
  const TempDir dir;
  dir.write("file", "x");
  expect_error(ErrorKind::kUsage, {"/file", "is not a directory"}, [&] {
    BlockCache::open({dir.path() / "file", kSize});
  });
  expect_error(ErrorKind::kIo, {"cannot make"}, [&] {
    BlockCache::open({dir.path() / "file" / "below", kSize});
  });
}

TEST(CacheDirectory, GivesNoRecordTheNameOfAnother) {
  const TempDir dir;
  CacheDirectory directory(dir.path());
  const RecordPath path = record_path({ObjectKey("a"), RecordKind::kBlock, 1});
  const Filling first = directory.make_filling(10);
  const Filling second = directory.make_filling(20);
  ASSERT_TRUE(first.file);
  ASSERT_TRUE(second.file);
  EXPECT_EQ(directory.give_name(first, path), 0);
  EXPECT_EQ(directory.give_name(second, path), EEXIST);
  EXPECT_EQ(directory.open_record(path).status()->st_size, 10);
  struct stat other {};
  directory.remove_record(path, other);
  EXPECT_TRUE(directory.has_record(path)) << "it is not the one that was found";
  directory.remove_record(path, *directory.open_record(path).status());
  EXPECT_FALSE(directory.has_record(path));
}

}  // namespace
}  // namespace reshardfs
