// SPDX-License-Identifier: Apache-2.0
/// The cache on disk, whose functions do not throw: without memory it keeps or finds nothing.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cache/block_cache.h"
#include "failing_allocations.h"
#include "support/temp_dir.h"

namespace reshardfs::no_memory {
namespace {

TEST(Cache, KeepsAndFindsAfterwards) {
  const test::TempDir directory;
  const auto cache = BlockCache::open({directory.path() / "cache", 64 << 20});
  const ObjectKey key("an object");
  const std::vector<std::byte> block(100'000, std::byte{7});
  const std::string value(5000, 'v');
  std::vector<std::byte> out(block.size());
  std::uint64_t number = 0;
  for (const Threads threads : {Threads::kThisOne, Threads::kAll}) {
    with_each_failing(
        threads,
        [&] {
          cache->write(key, number, block);
          cache->store("value", key, value);
          cache->flush();
          cache->read(key, number, out);
          cache->has(key, number);
          cache->load("value", key);
        },
        [&] {
          ++number;
          // A write that has failed makes the next ones wait for a moment: it may be the disk.
          cache->read(key, number, out);
          EXPECT_FALSE(cache->read(key, number + 1'000'000, out));
        });
  }
  // Of another one, which has not failed.
  const auto fresh = BlockCache::open({directory.path() / "cache", 64 << 20});
  fresh->write(key, 2'000'000, block);
  fresh->flush();
  ASSERT_TRUE(fresh->read(key, 2'000'000, out));
  EXPECT_EQ(out, block);
}

TEST(Cache, OpensOrSaysThatItCannot) {
  const test::TempDir directory;
  const BlockCache::Options options{directory.path() / "cache", 64 << 20};
  with_each_failing(
      Threads::kThisOne, [&] { BlockCache::open(options); },
      [&] { EXPECT_NE(BlockCache::open(options), nullptr); });
}

}  // namespace
}  // namespace reshardfs::no_memory
