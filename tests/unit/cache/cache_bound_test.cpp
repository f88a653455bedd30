// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "base/process/fault_report.h"
#include "cache/block_cache.h"
#include "cache_files.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using test::CacheInDirectory;
using test::kBlock;
using test::set_last_use;

TEST(CacheBound, IsKeptAfterEveryBlock) {
  const CacheInDirectory files(16 << 20);
  for (std::uint64_t i = 0; i < 60; ++i) {
    files.put("a", i, i % 3 == 0 ? kBlock / 3 : kBlock);
    ASSERT_LE(files.bytes_on_disk(), files.max_bytes) << i;
    ASSERT_LE(files.cache->stats().bytes_held, files.max_bytes) << i;
    ASSERT_GE(files.cache->stats().bytes_held, files.bytes_on_disk()) << i;
    ASSERT_TRUE(files.has("a", i, i % 3 == 0 ? kBlock / 3 : kBlock)) << i;
  }
  EXPECT_GT(files.cache->stats().evicted_records, 0U);
  EXPECT_EQ(files.cache->stats().not_kept, 0U);
  // It is used, too.
  EXPECT_GT(files.bytes_on_disk(), files.max_bytes / 4 * 3);
}

TEST(CacheBound, EvictsTheLeastRecentlyUsed) {
  const CacheInDirectory files(16 << 20);
  // Not in the order of their making.
  for (std::uint64_t i = 0; i < 12; ++i) {
    set_last_use(files.put_file("a", i), seconds(1000 + static_cast<int>(i * 5 % 12)));
  }
  std::uint64_t more = 0;
  while (files.cache->stats().evicted_records == 0) files.put("b", more++);
  const std::uint64_t evicted = files.cache->stats().evicted_records;
  ASSERT_LT(evicted, 12U);
  std::uint64_t missing = 0;
  for (std::uint64_t i = 0; i < 12; ++i) {
    // The oldest is the one with the greatest number of seconds.
    const bool gone = (i * 5) % 12 >= 12 - evicted;
    EXPECT_EQ(files.has("a", i), !gone) << i;
    if (gone) ++missing;
  }
  EXPECT_EQ(missing, evicted);
}

TEST(CacheBound, ReadingIsUse) {
  const CacheInDirectory files(16 << 20);
  for (std::uint64_t i = 0; i < 12; ++i) set_last_use(files.put_file("a", i), seconds(1000));
  EXPECT_TRUE(files.has("a", 3));
  test::Contents part(10);
  EXPECT_TRUE(files.cache->read_part(ObjectKey("a"), 7, kBlock, 100, part));
  files.cache->store("index", ObjectKey("a"), "x");
  files.cache->flush();
  EXPECT_TRUE(files.cache->load("index", ObjectKey("a")));
  for (std::uint64_t i = 0; i < 9; ++i) files.put("b", i);
  EXPECT_TRUE(files.has("a", 3));
  EXPECT_TRUE(files.has("a", 7));
  EXPECT_TRUE(files.cache->load("index", ObjectKey("a")));
  EXPECT_FALSE(files.has("a", 0));
}

/// Records that this process has open: those that have a name, and those that have not any more.
std::pair<std::size_t, std::size_t> open_records(const fs::path& own) {
  std::pair<std::size_t, std::size_t> count;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const fs::path file = fs::read_symlink(entry.path(), gone);
    const bool is_record = file.parent_path().parent_path() == own;
    if (gone || !is_record) continue;
    ++(file.string().ends_with(" (deleted)") ? count.second : count.first);
  }
  return count;
}

TEST(CacheBound, FewRecordsStayOpenAndNoneThatWasReadToItsEnd) {
  const CacheInDirectory files;
  const ObjectKey key("a");
  test::Contents part(100);
  for (std::uint64_t i = 0; i < 20; ++i) files.put("a", i);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(files.has("a", i));
  EXPECT_EQ(open_records(files.own()).first, 0U);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(files.cache->read_part(key, i, kBlock, 5, part));
    EXPECT_LE(open_records(files.own()).first, 8U);
  }
  EXPECT_EQ(open_records(files.own()).first, 8U);
  // Those that were evicted are closed when they are asked for.
  for (const fs::path& path : files.records()) fs::remove(path);
  EXPECT_EQ(open_records(files.own()).second, 8U);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(files.cache->read_part(key, i, kBlock, 5, part));
  }
  EXPECT_EQ(open_records(files.own()).second, 0U);
  files.put("a", 1);
  for (const std::size_t offset : {std::size_t{5}, std::size_t{70'000}, kBlock - 100}) {
    EXPECT_TRUE(files.cache->read_part(key, 1, kBlock, offset, part));
  }
  EXPECT_EQ(open_records(files.own()).first, 0U);
  EXPECT_EQ(files.cache->stats().bad_records, 0U);
}

TEST(CacheBound, UseInATimeToComeIsNone) {
  const CacheInDirectory files(16 << 20);
  const fs::path file = files.put_file("a", 0);
  set_last_use(file, -seconds(100'000));
  for (std::uint64_t i = 0; i < 16; ++i) files.put("b", i);
  EXPECT_FALSE(fs::exists(file));
  // Reading it says when it really was used.
  const fs::path read = files.put_file("a", 1);
  set_last_use(read, -seconds(100'000));
  EXPECT_TRUE(files.has("a", 1));
  EXPECT_LT(fs::last_write_time(read), fs::file_time_type::clock::now() + seconds(10));
}

TEST(CacheBound, ValuesAreEvictedToo) {
  const CacheInDirectory files(16 << 20);
  files.cache->store("index", ObjectKey("a"), std::string(3 << 20, 'x'));
  files.cache->flush();
  set_last_use(*files.records().begin(), seconds(1000));
  for (std::uint64_t i = 0; i < 14; ++i) files.put("b", i);
  EXPECT_FALSE(files.cache->load("index", ObjectKey("a")));
}

TEST(CacheBound, ASmallerOneIsKeptFromTheFirstUse) {
  CacheInDirectory files(64 << 20);
  for (std::uint64_t i = 0; i < 40; ++i) files.put("a", i);
  files.max_bytes = 16 << 20;
  files.reopen();
  files.has("a", 0);
  files.cache->flush();
  EXPECT_LE(files.bytes_on_disk(), files.max_bytes);
  EXPECT_GT(files.cache->stats().evicted_records, 20U);
}

TEST(CacheBound, WhatKilledWritersLeaveIsRemoved) {
  CacheInDirectory files(16 << 20);
  files.put("a", 0);
  const auto leave = [&](const std::string& name) {
    return files.dir.write("cache/" + files.own().filename().string() + "/filling/" + name,
                           std::string(2 << 20, 'x'));
  };
  const fs::path killed = leave("0123456789abcdef");
  const fs::path alive = leave("fedcba9876543210");
  const Descriptor writer(::open(alive.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);
  // Neither was counted.
  fs::remove(files.own() / "held");
  files.reopen();
  EXPECT_TRUE(files.has("a", 0));
  files.cache->flush();
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_TRUE(fs::exists(alive));
  // What is still being written counts.
  for (std::uint64_t i = 0; i < 30; ++i) {
    files.put("b", i);
    ASSERT_LE(files.bytes_on_disk(), files.max_bytes);
  }
}

TEST(CacheBound, WhatOthersHavePutIntoItCounts) {
  const CacheInDirectory files(16 << 20);
  files.put("a", 0);
  files.dir.write("cache/" + files.own().filename().string() + "/0/notes",
                  std::string(6 << 20, 'x'));
  for (std::uint64_t i = 0; i < 30; ++i) files.put("b", i);
  EXPECT_LE(files.bytes_on_disk(), files.max_bytes);
}

std::string last_fault;

/// Counts faults while it lives.
struct FaultListening {
  FaultListening() {
    last_fault.clear();
    set_fault_listener([](LogEvent, const std::string& cause, const std::string& text) {
      last_fault = cause + ": " + text;
    });
  }
  ~FaultListening() { set_fault_listener(nullptr); }
  FaultListening(const FaultListening&) = delete;
  FaultListening& operator=(const FaultListening&) = delete;
};

/// A file system of its own, which is soon full.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(fs::path path) : path_(std::move(path)) {
    fs::create_directories(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=24m") == 0;
  }
  ~SmallFileSystem() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  bool is_mounted() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_ = false;
};

TEST(CacheBound, ADiskThatIsSmallerThanTheCache) {
  CacheInDirectory files;
  const SmallFileSystem small(files.dir.path() / "small");
  if (!small.is_mounted()) GTEST_SKIP() << "mounting is not permitted";
  files.cache = BlockCache::open({files.dir.path() / "small", 1 << 30});
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    files.put("a", i);
    if (files.has("a", i)) ++hits;
  }
  // It goes on to keep what is new, in the place of what is old.
  EXPECT_EQ(hits, 100U);
  EXPECT_GT(files.cache->stats().evicted_records, 70U);
  EXPECT_EQ(files.cache->stats().failures, 0U);
  EXPECT_EQ(files.cache->stats().bad_records, 0U);
}

TEST(CacheBound, ADiskThatOthersHaveFilled) {
  const FaultListening listening;
  CacheInDirectory files;
  const SmallFileSystem small(files.dir.path() / "small");
  if (!small.is_mounted()) GTEST_SKIP() << "mounting is not permitted";
  files.cache = BlockCache::open({files.dir.path() / "small", 1 << 30});
  std::string all(24 << 20, 'x');
  const Descriptor file(
      ::open((files.dir.path() / "small" / "full").c_str(), O_RDWR | O_CREAT, 0600));
  while (::write(file.get(), all.data(), all.size()) > 0) {
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    files.put("a", i);
    EXPECT_FALSE(files.has("a", i));
  }
  EXPECT_EQ(files.cache->stats().failures, 1U) << "it should have paused";
  EXPECT_EQ(files.cache->stats().not_kept, 20U);
  EXPECT_NE(last_fault.find("the cache cannot be written: "), std::string::npos) << last_fault;
  EXPECT_NE(last_fault.find("No space left"), std::string::npos) << last_fault;
}

TEST(CacheBound, ALimitOfTheProcessIsNoSignal) {
  const CacheInDirectory files;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100'000U, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  files.put("a", 1);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(files.has("a", 1));
  EXPECT_EQ(files.cache->stats().failures, 1U);
  EXPECT_EQ(files.cache->stats().not_kept, 1U);
}

}  // namespace
}  // namespace reshardfs
