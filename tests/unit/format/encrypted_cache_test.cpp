// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted_cache.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs {
namespace {

constexpr std::size_t kBytes = 100;

/// Makes blocks of one value, and counts them.
struct Maker {
  int made = 0;

  BlockCache::Block get(BlockCache& cache, std::uint64_t file, std::uint64_t block) {
    return cache.get(file, block, kBytes, [&](std::span<std::byte> out) {
      ++made;
      for (std::byte& byte : out) byte = static_cast<std::byte>(16 * file + block);
    });
  }
};

TEST(BlockCache, DropsTheLeastRecentlyUsed) {
  BlockCache cache(3 * kBytes);
  Maker maker;
  for (const std::uint64_t block : {0U, 1U, 2U, 0U, 3U}) maker.get(cache, 0, block);
  EXPECT_EQ(maker.made, 4);
  maker.get(cache, 0, 0);
  EXPECT_EQ(maker.made, 4) << "0 was used after 1";
  maker.get(cache, 0, 1);
  EXPECT_EQ(maker.made, 5) << "1 was dropped for 3";
  EXPECT_EQ(cache.statistics().peak_bytes, 3 * kBytes);
  EXPECT_EQ(cache.statistics().hits, 2U);
  EXPECT_EQ(cache.statistics().misses, 5U);
}

TEST(BlockCache, HoldsOneBlockThatIsLargerThanItsRoom) {
  BlockCache cache(kBytes / 2);
  Maker maker;
  for (const std::uint64_t block : {0U, 0U, 1U, 1U, 0U}) {
    EXPECT_EQ(maker.get(cache, 0, block)->bytes()[0], static_cast<std::byte>(block));
  }
  EXPECT_EQ(maker.made, 3);
  EXPECT_EQ(cache.statistics().peak_bytes, kBytes);
}

TEST(BlockCache, KeepsFilesApartAndForgetsThem) {
  BlockCache cache(10 * kBytes);
  Maker maker;
  const std::uint64_t a = cache.add_file();
  const std::uint64_t b = cache.add_file();
  ASSERT_NE(a, b);
  maker.get(cache, a, 5);
  const BlockCache::Block held = maker.get(cache, b, 5);
  EXPECT_NE(maker.get(cache, a, 5)->bytes()[0], held->bytes()[0]);
  cache.remove_file(a);
  EXPECT_EQ(cache.statistics().used_bytes, kBytes);
  cache.remove_file(b);
  EXPECT_EQ(held->bytes()[99], static_cast<std::byte>(16 * b + 5)) << "in use: not wiped yet";
}

TEST(BlockCache, WaitsForRoomThatIsInUse) {
  BlockCache cache(kBytes);
  Maker maker;
  BlockCache::Block held = maker.get(cache, 0, 0);
  std::atomic<bool> got = false;
  std::thread other([&] {
    maker.get(cache, 0, 1);
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(got);
  held.reset();
  other.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(cache.statistics().peak_bytes, kBytes);
}

TEST(BlockCache, GivesAllThatWaitTheErrorAndKeepsNothing) {
  BlockCache cache(10 * kBytes);
  std::atomic<int> failed = 0;
  std::atomic<int> fills = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      try {
        cache.get(0, 0, kBytes, [&](std::span<std::byte>) {
          ++fills;
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          throw Error(ErrorKind::kIo, "no luck");
        });
      } catch (Error& error) {
        error.in_file("each adds to its own");
        ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 4);
  EXPECT_LE(fills, 4);
  EXPECT_EQ(cache.statistics().used_bytes, 0U);
  Maker maker;
  EXPECT_NO_THROW(maker.get(cache, 0, 0));
}

TEST(BlockCache, MayGoBeforeABlockThatIsInUse) {
  Maker maker;
  BlockCache::Block held;
  {
    BlockCache cache(kBytes);
    held = maker.get(cache, 1, 2);
  }
  EXPECT_EQ(held->bytes()[0], std::byte{18});
}

TEST(SecretBuffer, ForgetsWhatIsCutOff) {
  SecretBuffer buffer(64, SecretBuffer::Swap::kAvoided);
  std::byte* const data = buffer.bytes().data();
  for (std::byte& byte : buffer.bytes()) byte = std::byte{7};
  buffer.shrink(16);
  EXPECT_EQ(buffer.bytes().size(), 16U);
  EXPECT_EQ(data[15], std::byte{7});
  EXPECT_EQ(data[16], std::byte{0});
  const SecretBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.bytes().data(), data);
}

}  // namespace
}  // namespace reshardfs
