// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/pooled_source.h"

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hand_fetcher.h"
#include "support/errors.h"
#include "support/process_cache.h"

namespace reshardfs::pooled_source_tests {
namespace {

using test::expect_error;
using test::HandFetcher;
using test::is_of_object;
using test::ReadyFetcher;

constexpr std::uint64_t kBlock = BlockPool::kBlockBytes;
constexpr std::uint64_t kSize = 40 * kBlock + 5;

class PooledSourceTest : public testing::Test {
 protected:
  void read(std::uint64_t offset, std::size_t count) {
    std::vector<std::byte> out(count);
    source_.read_at(offset, out);
    EXPECT_TRUE(is_of_object(out, offset));
  }
  /// Bytes that were fetched for nobody who waits.
  std::uint64_t ahead() const {
    std::uint64_t sum = 0;
    for (const auto& [range, when] : fetcher_->asked()) {
      if (when == Foresight::kAhead) sum += range.length();
    }
    return sum;
  }

  BlockPool pool_{64 * kBlock};
  std::shared_ptr<ReadyFetcher> fetcher_ = std::make_shared<ReadyFetcher>(kSize);
  PooledSource source_{fetcher_, pool_};
};

TEST_F(PooledSourceTest, IsWhatItsFetcherIs) {
  EXPECT_EQ(source_.name(), "test://object");
  EXPECT_EQ(source_.size(), kSize);
  EXPECT_EQ(source_.mtime_ns(), fetcher_->mtime_ns());
  EXPECT_EQ(source_.stamp().inode, 6U);
  EXPECT_TRUE(source_.is_far());
  EXPECT_TRUE(source_.is_remote());
  EXPECT_EQ(source_.descriptor(), nullptr);
  source_.check_unchanged();
  fetcher_->changed = true;
  expect_error(ErrorKind::kChanged, {"test://object"}, [&] { source_.check_unchanged(); });
}

TEST_F(PooledSourceTest, ReadsUpToItsEnd) {
  read(0, 1);
  read(kSize - 1, 1);
  read(kSize - 3 * kBlock, 3 * kBlock);
  read(kSize, 0);
  for (const auto& [offset, count] : std::vector<std::pair<std::uint64_t, std::size_t>>{
           {kSize, 1}, {kSize - 1, 2}, {kSize + 1, 0}, {~std::uint64_t{0}, 2}}) {
    std::vector<std::byte> out(count);
    expect_error(ErrorKind::kBadInput, {"test://object", std::to_string(kSize)},
                 [&, at = offset] { source_.read_at(at, out); });
  }
}

TEST_F(PooledSourceTest, EmptyReadsAskForNothing) {
  read(0, 0);
  source_.read_many({});
  EXPECT_TRUE(fetcher_->asked().empty());
}

TEST_F(PooledSourceTest, ForeseesNothingBehindItsEnd) {
  const std::vector<ByteRange> ranges{ByteRange(0, 10), ByteRange(kSize - 1, 2)};
  source_.foresee(ranges, Foresight::kNow);
  EXPECT_TRUE(fetcher_->asked().empty());
  source_.foresee(std::span(ranges).first(1), Foresight::kNow);
  EXPECT_EQ(fetcher_->asked().size(), 1U);
}

TEST_F(PooledSourceTest, WhoReadsInARowIsReadAheadOf) {
  for (std::uint64_t at = 0; at < 8 * kBlock; at += kBlock / 8) read(at, kBlock / 8);
  EXPECT_GE(ahead(), 8 * kBlock);
  std::vector<ByteRange> all;
  for (const auto& [range, when] : fetcher_->asked()) all.push_back(range);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.offset() < b.offset(); });
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].end(), all[i].offset());
}

TEST_F(PooledSourceTest, WhoJumpsIsNot) {
  for (const std::uint64_t block : {30U, 1U, 20U, 10U, 39U}) read(block * kBlock, 100);
  EXPECT_EQ(ahead(), 0U);
  EXPECT_EQ(pool_.figures().fetched, 5 * BlockPool::kSectorBytes);
}

TEST_F(PooledSourceTest, WhoKnowsThePlanIsNot) {
  std::vector<std::byte> out(kBlock / 8);
  for (std::uint64_t at = 0; at < 8 * kBlock; at += out.size()) {
    read_part(source_, {at, out, /*foreseen=*/true});
    EXPECT_TRUE(is_of_object(out, at));
  }
  EXPECT_EQ(ahead(), 0U);
}

/// A source whose second block is kept in the cache on disk.
class CachedSource : public testing::Test {
 protected:
  void SetUp() override {
    source_->foresee(std::array{ByteRange(kBlock, kBlock)}, Foresight::kNow);
    cache_.reopen();
    source_ = std::make_unique<PooledSource>(fetcher_, pool_);
  }

  test::ProcessCache cache_;
  BlockPool pool_{64 * kBlock};
  std::shared_ptr<ReadyFetcher> fetcher_ = std::make_shared<ReadyFetcher>(kSize);
  std::unique_ptr<PooledSource> source_ = std::make_unique<PooledSource>(fetcher_, pool_);
};

TEST_F(CachedSource, IsForeseenWithoutWhatIsKept) {
  source_->foresee(std::array{ByteRange(kBlock - 1, 2), ByteRange(2 * kBlock - 1, 2)},
                   Foresight::kAhead);
  std::vector<ByteRange> asked;
  for (const auto& [range, when] : fetcher_->asked()) asked.push_back(range);
  EXPECT_EQ(asked, (std::vector{ByteRange(kBlock, kBlock), ByteRange(0, kBlock),
                                ByteRange(2 * kBlock, kBlock)}));
  EXPECT_EQ(pool_.figures().blocks, 2U) << "those alone";
}

TEST_F(CachedSource, IsReadStraightFromWhatIsKept) {
  std::vector<std::byte> out(3 * kBlock - 20);
  source_->read_at(10, out);
  EXPECT_TRUE(is_of_object(out, 10));
  EXPECT_EQ(pool_.figures().blocks, 2U) << "the others";
}

TEST(PooledSource, AsksForAllPartsAtOnce) {
  BlockPool pool(64 * kBlock);
  const auto fetcher = std::make_shared<HandFetcher>(kSize);
  const PooledSource source(fetcher, pool);
  std::vector<std::byte> one(10);
  std::vector<std::byte> two(20);
  const std::vector<ReadRequest> parts{{5 * kBlock, one}, {30 * kBlock, two}};
  auto reading = std::async(std::launch::async, [&] { source.read_many(parts); });
  fetcher->await(2);
  const auto first = fetcher->take();
  fetcher->take().bring();
  first.bring();
  reading.get();
  EXPECT_TRUE(is_of_object(one, 5 * kBlock));
  EXPECT_TRUE(is_of_object(two, 30 * kBlock));
  EXPECT_EQ(fetcher->ranges().size(), 2U);
}

TEST(PooledSource, MayEndBeforeWhatItAskedFor) {
  BlockPool pool(64 * kBlock);
  const auto fetcher = std::make_shared<HandFetcher>(kSize);
  auto source = std::make_unique<PooledSource>(fetcher, pool);
  const std::vector<ByteRange> ranges{ByteRange(0, 4 * kBlock)};
  source->foresee(ranges, Foresight::kAhead);
  source.reset();
  fetcher->take().fail();
  fetcher->bring_all();
  EXPECT_LE(pool.figures().blocks, 4U);
}

TEST(PooledSource, ItsBlocksGoWithIt) {
  BlockPool pool(64 * kBlock);
  const auto fetcher = std::make_shared<ReadyFetcher>(kSize);
  {
    const PooledSource source(fetcher, pool);
    std::vector<std::byte> out(10);
    source.read_at(0, out);
    EXPECT_EQ(pool.figures().blocks, 1U);
  }
  EXPECT_EQ(pool.figures().blocks, 0U);
  const PooledSource again(fetcher, pool);
  std::vector<std::byte> out(10);
  again.read_at(0, out);
  EXPECT_EQ(fetcher->asked().size(), 2U) << "another source, another version perhaps";
}

}  // namespace
}  // namespace reshardfs::pooled_source_tests
