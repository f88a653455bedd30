// SPDX-License-Identifier: Apache-2.0
#include "cache/block_cache.h"

#include <sys/file.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"
#include "cache_files.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::block_contents;
using test::CacheInDirectory;
using test::Contents;
using test::expect_error;
using test::kBlock;

TEST(BlockCache, GivesBackWhatWasWritten) {
  const CacheInDirectory files;
  EXPECT_FALSE(files.has("a", 0));
  files.put("a", 0);
  files.put("a", 7);
  EXPECT_TRUE(files.has("a", 0));
  EXPECT_TRUE(files.has("a", 7));
  const BlockCache::Stats stats = files.cache->stats();
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.bytes_read, 2 * kBlock);
  EXPECT_EQ(stats.bytes_written, 2 * kBlock);
  EXPECT_EQ(stats.bad_records + stats.failures + stats.not_kept + stats.evicted_records, 0U);
  EXPECT_GE(stats.bytes_held, 2 * kBlock);
  EXPECT_EQ(stats.max_bytes, files.max_bytes);
}

TEST(BlockCache, KeepsItsBlocksWhenItIsClosed) {
  CacheInDirectory files;
  files.put("a", 3);
  const auto held = files.cache->stats().bytes_held;
  files.reopen();
  EXPECT_TRUE(files.has("a", 3));
  EXPECT_EQ(files.cache->stats().bytes_held, held);
}

TEST(BlockCache, TellsObjectsAndBlocksApart) {
  const CacheInDirectory files;
  files.put("a", 1);
  EXPECT_FALSE(files.has("b", 1));
  EXPECT_FALSE(files.has("a", 2));
  EXPECT_FALSE(files.has(std::string("a\0", 2), 1));
  EXPECT_FALSE(files.has("", 1));
  files.put("", 1);
  EXPECT_TRUE(files.has("", 1));
  EXPECT_TRUE(files.has("a", 1));
}

TEST(BlockCache, KeepsBlocksOfAllLengths) {
  const CacheInDirectory files;
  std::uint64_t block = 0;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{16383},
        std::size_t{16384}, std::size_t{16385}, kBlock - 1, kBlock, 3 * kBlock + 17}) {
    files.put("a", block, size);
    EXPECT_TRUE(files.has("a", block, size)) << size;
    ++block;
  }
}

TEST(BlockCache, HasNoBlockOfAnotherLength) {
  const CacheInDirectory files;
  for (const std::size_t size : {kBlock - 1, kBlock + 1, std::size_t{1}}) {
    files.put("a", 0);
    EXPECT_FALSE(files.has("a", 0, size));
    // As lengths follow from identities, one of them must be wrong.
    EXPECT_FALSE(files.has("a", 0));
  }
  EXPECT_EQ(files.cache->stats().bad_records, 3U);
}

TEST(BlockCache, GivesPartsOfBlocks) {
  const CacheInDirectory files;
  const ObjectKey key("a");
  for (const std::size_t size : {std::size_t{100}, std::size_t{70000}, kBlock - 3, kBlock}) {
    files.put("a", size, size);
    const Contents all = block_contents("a", size, size);
    for (std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{16383},
                               std::size_t{16384}, std::size_t{70001}, size / 2, size - 1, size}) {
      offset = std::min(offset, size);
      for (std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{16384},
                                 std::size_t{16385}, std::size_t{200000}, size}) {
        length = std::min(length, size - offset);
        Contents out(length, std::byte{0x55});
        ASSERT_TRUE(files.cache->read_part(key, size, size, offset, out)) << size << ' ' << offset;
        ASSERT_TRUE(
            std::equal(out.begin(), out.end(), all.begin() + static_cast<std::ptrdiff_t>(offset)))
            << size << ' ' << offset << ' ' << length;
      }
    }
  }
  Contents out(2);
  EXPECT_FALSE(files.cache->read_part(key, kBlock, kBlock, kBlock - 1, out));
  EXPECT_FALSE(files.cache->read_part(key, kBlock, kBlock, kBlock + 1, out));
  EXPECT_EQ(files.cache->stats().bad_records, 0U);
}

TEST(BlockCache, KeepsValues) {
  CacheInDirectory files;
  const ObjectKey a("a");
  const std::string large(5'000'001, 'x');
  EXPECT_FALSE(files.cache->load("index", a));
  files.cache->store("index", a, "of a");
  files.cache->store("index 2", a, large);
  files.cache->store("index", ObjectKey("b"), "");
  files.cache->flush();
  files.reopen();
  EXPECT_EQ(files.cache->load("index", a), "of a");
  EXPECT_EQ(files.cache->load("index 2", a), large);
  EXPECT_EQ(files.cache->load("index", ObjectKey("b")), "");
  EXPECT_FALSE(files.cache->load("index 3", a));
  EXPECT_FALSE(files.cache->load("index 2", ObjectKey("b")));
  EXPECT_EQ(files.cache->stats().value_hits, 3U);
  EXPECT_EQ(files.cache->stats().value_misses, 2U);
  EXPECT_EQ(files.cache->stats().hits + files.cache->stats().misses, 0U);
}

TEST(BlockCache, DoesNotKeepValuesThatWouldFillIt) {
  const CacheInDirectory files(16 << 20);
  files.cache->store("index", ObjectKey("a"), std::string((4 << 20) + 1, 'x'));
  files.cache->flush();
  EXPECT_FALSE(files.cache->load("index", ObjectKey("a")));
  EXPECT_EQ(files.cache->stats().not_kept, 1U);
}

TEST(BlockCache, NoticesADamagedValue) {
  const CacheInDirectory files;
  files.cache->store("index", ObjectKey("a"), std::string(3 << 20, 'x'));
  files.cache->flush();
  const auto file = *files.records().begin();
  const std::uint64_t bits = std::filesystem::file_size(file) * 8;
  for (const std::uint64_t bit : {std::uint64_t{0}, std::uint64_t{100}, bits / 2, bits - 1}) {
    test::flip_bit(file, bit);
    EXPECT_FALSE(files.cache->load("index", ObjectKey("a")));
    EXPECT_TRUE(files.records().empty());
    files.cache->store("index", ObjectKey("a"), std::string(3 << 20, 'x'));
    files.cache->flush();
  }
  EXPECT_TRUE(files.cache->load("index", ObjectKey("a")));
  EXPECT_EQ(files.cache->stats().bad_records, 4U);
}

TEST(BlockCache, IsSharedByAllWhoOpenIt) {
  const CacheInDirectory files;
  const auto other = BlockCache::open({files.dir.path() / "cache", files.max_bytes});
  files.put("a", 1);
  Contents out(kBlock);
  EXPECT_TRUE(other->read(ObjectKey("a"), 1, out));
  EXPECT_EQ(out, block_contents("a", 1, kBlock));
  EXPECT_EQ(other->stats().bytes_held, files.cache->stats().bytes_held);
}

TEST(BlockCache, WritesABlockOnce) {
  const CacheInDirectory files;
  const auto file = files.put_file("a", 1);
  struct stat before {};
  struct stat after {};
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  const auto held = files.cache->stats().bytes_held;
  files.put("a", 1);
  ASSERT_EQ(::stat(file.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(files.cache->stats().bytes_written, kBlock);
  EXPECT_EQ(files.cache->stats().bytes_held, held);
}

TEST(BlockCache, DropsWhatItCannotWriteInTime) {
  const CacheInDirectory files(512 << 20);
  files.put("a", 0);
  // Whoever has the lock keeps the writer from going on.
  const Descriptor held(::open((files.own() / "held").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const Contents bytes(kBlock);
  for (std::uint64_t i = 0; i < 100; ++i) files.cache->write(ObjectKey("b"), i, bytes);
  EXPECT_GE(files.cache->stats().not_kept, 100 - 65U);
  EXPECT_TRUE(files.has("a", 0));
}

TEST(BlockCache, EndsThoughSomebodyHasItsLocks) {
  CacheInDirectory files;
  const Descriptor held(::open((files.own() / "held").c_str(), O_RDWR | O_CLOEXEC));
  const Descriptor sweep(::open((files.own() / "sweep").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  ASSERT_EQ(::flock(sweep.get(), LOCK_EX), 0);
  files.cache->write(ObjectKey("b"), 1, Contents(kBlock));
  files.cache.reset();
}

TEST(BlockCache, ServesManyThreads) {
  const CacheInDirectory files(20 << 20);
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Contents out(kBlock / 4);
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t block = (i * 7 + t) % 90;
        const Contents right = block_contents("a", block, out.size());
        if (files.cache->read(ObjectKey("a"), block, out)) {
          EXPECT_TRUE(out == right);
        } else {
          files.cache->write(ObjectKey("a"), block, right);
        }
      }
    });
  }
  threads.clear();
  files.cache->flush();
  const BlockCache::Stats stats = files.cache->stats();
  EXPECT_EQ(stats.bad_records, 0U);
  EXPECT_EQ(stats.failures, 0U);
  EXPECT_EQ(stats.hits + stats.misses, 800U);
  EXPECT_LE(files.bytes_on_disk(), files.max_bytes);
}

TEST(BlockCache, RefusesASizeThatIsOfNoUse) {
  const test::TempDir dir;
  expect_error(ErrorKind::kUsage, {"too small", "16 MiB"}, [&] {
    BlockCache::open({dir.path() / "cache", (16 << 20) - 1});
  });
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "cache"));
}

}  // namespace
}  // namespace reshardfs
