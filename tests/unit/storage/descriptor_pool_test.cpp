// SPDX-License-Identifier: Apache-2.0
#include "storage/descriptor_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "storage/byte_source.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::TempDir;

std::string read(const ByteSource& source) {
  std::string out(source.size(), '?');
  source.read_at(0, std::as_writable_bytes(std::span(out)));
  return out;
}

/// Files of this process that are open below `dir`.
std::size_t open_below(const std::filesystem::path& dir) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().starts_with(dir.string())) ++count;
  }
  return count;
}

std::vector<ByteSourcePtr> open_files(const TempDir& dir, std::size_t count, DescriptorPool& pool) {
  std::vector<ByteSourcePtr> files;
  for (std::size_t i = 0; i < count; ++i) {
    const auto path = dir.write(std::to_string(i), "file " + std::to_string(i));
    files.push_back(open_local_file(path, pool));
  }
  return files;
}

TEST(DescriptorPool, KeepsNoMoreFilesOpenThanItMay) {
  const TempDir dir;
  DescriptorPool pool(3, 2);
  auto files = open_files(dir, 20, pool);
  EXPECT_EQ(open_below(dir.path()), 5U);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(read(*files[i]), "file " + std::to_string(i));
      files[i]->check_unchanged();
      EXPECT_LE(open_below(dir.path()), 5U);
    }
  }
  files.clear();
  EXPECT_EQ(open_below(dir.path()), 0U);
  EXPECT_EQ(pool.kept(), 0U);
}

TEST(DescriptorPool, GivesAPlaceThatIsFreeAgainToTheNextFile) {
  const TempDir dir;
  DescriptorPool pool(1, 1);
  { const auto first = open_files(dir, 1, pool); }
  EXPECT_TRUE(pool.take_place());
  EXPECT_FALSE(pool.take_place());
  pool.give_back_place();
  EXPECT_TRUE(pool.take_place());
}

TEST(DescriptorPool, ClosesTheLeastRecentlyUsed) {
  DescriptorPool pool(0, 2);
  std::string opened;
  const auto get = [&](const char& file) {
    pool.get(&file, [&] {
      opened += file;
      return std::make_shared<const Descriptor>(-1);
    });
  };
  const std::string files = "abc";
  for (const std::size_t i : {0U, 1U, 0U, 2U, 0U, 1U}) get(files[i]);
  EXPECT_EQ(opened, "abcb");
  pool.forget(&files[0]);
  get(files[0]);
  get(files[1]);
  EXPECT_EQ(opened, "abcba");
  pool.close_idle();
  EXPECT_EQ(pool.kept(), 0U);
  get(files[1]);
  EXPECT_EQ(opened, "abcbab");
}

TEST(DescriptorPool, DoesNotCloseAFileUnderAReader) {
  const TempDir dir;
  DescriptorPool pool(0, 1);
  const auto path = dir.write("a", "x").string();
  const int key = 0;
  const DescriptorPtr held =
      pool.get(&key, [&] { return std::make_shared<const Descriptor>(::open(path.c_str(), 0)); });
  pool.close_idle();
  char byte = 0;
  EXPECT_EQ(::pread(held->get(), &byte, 1, 0), 1);
}

TEST(DescriptorPool, LeavesTheProcessSomeFiles) {
  for (const std::size_t limit : {20U, 256U, 1024U, 1U << 20U}) {
    DescriptorPool pool(0, 1);
    pool.fit(limit);
    std::size_t places = 0;
    while (pool.take_place()) ++places;
    EXPECT_GE(places, limit / 4) << limit;
    EXPECT_LE(places + 1, limit - std::min<std::size_t>(limit / 2, 256)) << limit;
  }
}

TEST(DescriptorPool, HasPlacesForMostOfTheFilesThatAreLeft) {
  const std::vector<std::pair<std::size_t, std::size_t>> places_of_limits{
      {2, 0}, {10, 4}, {200, 75}, {1024, 576}, {4000, 3488}};
  for (const auto& [limit, wanted] : places_of_limits) {
    DescriptorPool pool(0, 1);
    pool.fit(limit);
    std::size_t places = 0;
    while (pool.take_place()) ++places;
    EXPECT_EQ(places, wanted) << limit;
  }
  EXPECT_TRUE(DescriptorPool::process().take_place());
  DescriptorPool::process().give_back_place();
}

TEST(PooledFile, NoticesThatAnotherFileHasTakenItsPlace) {
  const TempDir dir;
  DescriptorPool pool(0, 1);
  const auto files = open_files(dir, 2, pool);
  dir.write("other", "file 0");
  std::filesystem::rename(dir.path() / "other", dir.path() / "0");
  expect_error(ErrorKind::kChanged, {"/0", "changed while it was in use", "mount again"},
               [&] { read(*files[0]); });
  expect_error(ErrorKind::kChanged, {"/0"}, [&] { files[0]->check_unchanged(); });
}

TEST(PooledFile, NoticesThatItWasWrittenOrRemoved) {
  const TempDir dir;
  DescriptorPool pool(0, 1);
  const auto files = open_files(dir, 3, pool);
  dir.write("0", "FILE 0");
  std::filesystem::remove(dir.path() / "1");
  expect_error(ErrorKind::kChanged, {"/0", "changed"}, [&] { read(*files[0]); });
  expect_error(ErrorKind::kChanged, {"/1", "removed or renamed"}, [&] { read(*files[1]); });
  EXPECT_EQ(read(*files[2]), "file 2");
}

TEST(PooledFile, IsFoundAgainFromAnotherWorkingDirectory) {
  const TempDir dir;
  dir.write("a", "1");
  dir.write("b", "2");
  DescriptorPool pool(0, 1);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  const auto a = open_local_file("a", pool);
  const auto b = open_local_file("b", pool);
  std::filesystem::current_path(before);
  EXPECT_EQ(a->name(), "a");
  EXPECT_EQ(read(*a) + read(*b), "12");
}

TEST(PooledFile, ServesManyThreads) {
  const TempDir dir;
  DescriptorPool pool(1, 2);
  const auto files = open_files(dir, 8, pool);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 400; ++i) {
        const std::size_t number = (i * (t + 1)) % files.size();
        EXPECT_EQ(read(*files[number]), "file " + std::to_string(number));
        files[number]->check_unchanged();
      }
    });
  }
  threads.clear();
  EXPECT_LE(open_below(dir.path()), 3U);
}

}  // namespace
}  // namespace reshardfs
