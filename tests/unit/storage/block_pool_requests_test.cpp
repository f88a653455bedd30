// SPDX-License-Identifier: Apache-2.0
/// Which requests the pool makes, and which of them a read waits for.
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "block_pool_fixture.h"
#include "hand_fetcher.h"
#include "storage/stuck_read.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::Asked;
using test::BlockPoolTest;
using test::blocks;
using test::expect_error;
using test::is_of_object;
using test::kBlock;
using test::kSector;
using test::Ranges;
using test::sectors;
using test::until;

TEST_F(BlockPoolTest, ARequestReachesAsFarAsTheFurthestOfItsRanges) {
  make_pool(64);
  foresee({ByteRange(0, kSector + 1)});
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(0, 2)});
  // Near each other, one within another, and far behind others.
  foresee({sectors(100, 101), sectors(120, 126), sectors(121, 122), sectors(127, 128)});
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(0, 2), sectors(100, 101), sectors(120, 128)}));
  foresee({sectors(200, 201), sectors(220, 226), sectors(221, 222)});
  EXPECT_EQ(fetcher_.ranges().back(), sectors(220, 226));
  fetcher_.bring_all();
}

TEST_F(BlockPoolTest, WhatIsNeededApartIsNotBridged) {
  make_pool(16);
  foresee({sectors(0, 1), sectors(2, 3), sectors(3, 4)}, Foresight::kApart);
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(0, 1), sectors(2, 4)}));
}

TEST_F(BlockPoolTest, WhatIsForeseenComesInEightRequests) {
  make_pool(64);
  foresee({blocks(0, 16)});
  EXPECT_EQ(lengths(), std::vector<std::uint64_t>(8, 2 * kBlock));
}

TEST_F(BlockPoolTest, WhatHasComeLeavesItsNeighboursUnderWay) {
  make_pool(16);
  for (std::uint64_t sector = 0; sector < 3; ++sector) foresee({sectors(sector, sector + 1)});
  const Asked before = fetcher_.take();
  fetcher_.take().bring();
  foresee({sectors(0, 3)});
  EXPECT_EQ(fetcher_.ranges().size(), 3U);
  before.bring();
}

TEST_F(BlockPoolTest, ManyBytesComeInFewRequests) {
  make_pool(128);
  foresee({blocks(0, 64)});
  EXPECT_EQ(pool_->figures().requests, 8U);
  while (fetcher_.waiting() > 0) fetcher_.take().fail();
}

TEST_F(BlockPoolTest, ALongReadTakesAFewBlocksAtATime) {
  make_pool(64);
  auto read = begin_read(kBlock / 2, 20 * kBlock);
  fetcher_.await(8);
  EXPECT_EQ(pool_->figures().fetched, 15 * kBlock / 2) << "up to the end of the eighth block";
  while (!is_ready(read)) fetcher_.bring_all();
  EXPECT_TRUE(read.get());
}

TEST_F(BlockPoolTest, AReadWaitsForNoneOfItsNeighbours) {
  make_pool(16);
  foresee({sectors(0, 1)});
  foresee({sectors(2, 3)});
  const Asked before = fetcher_.take();
  const Asked behind = fetcher_.take();
  auto read = begin_read(kSector, kSector);
  fetcher_.take().bring();
  EXPECT_TRUE(read.get());
  before.bring();
  behind.bring();
}

TEST_F(BlockPoolTest, AReadWaitsForAllRequestsThatBringItsBytes) {
  make_pool(16);
  for (std::uint64_t sector = 0; sector < 3; ++sector) foresee({sectors(sector, sector + 1)});
  auto read = begin_read(kSector - 10, kSector + 20);
  until([&] { return pool_->figures().hits > 0; });
  fetcher_.take().bring();
  fetcher_.take().bring();
  const int looks = fetcher_.looks();
  until([&] { return is_ready(read) || fetcher_.looks() > looks + 1; });
  EXPECT_FALSE(is_ready(read));
  fetcher_.take().bring();
  EXPECT_TRUE(read.get());
}

TEST_F(BlockPoolTest, CountsAsHitsWhatItNeedNotFetch) {
  make_pool(16);
  foresee({sectors(0, 1)});
  fetcher_.bring_all();
  auto read = begin_read(0, 2 * kSector);
  fetcher_.take().bring();
  EXPECT_TRUE(read.get());
  EXPECT_EQ(pool_->figures().hits, kSector);
  EXPECT_EQ(pool_->figures().fetched, 2 * kSector);
  std::vector<std::byte> out(10);
  auto alone = std::async(std::launch::async, [&] { pool_->read_alone(fetcher_, 5, out); });
  fetcher_.take().bring();
  alone.get();
  EXPECT_EQ(pool_->figures().fetched, 2 * kSector + 10);
  EXPECT_EQ(pool_->figures().requests, 3U);
}

TEST_F(BlockPoolTest, OnlyAFailureOfMoreThanTheReadIsTriedAgain) {
  make_pool(16);
  fetcher_.is_file = true;
  auto whole = begin_read(kSector, 2 * kSector);
  fetcher_.take().fail();
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] { whole.get(); });
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(1, 3)});
  for (const std::uint64_t offset : {kSector, 2 * kSector - 10, kSector + 5}) {
    auto part = begin_read(offset, 10);
    EXPECT_EQ(fetcher_.waiting_range(), sectors(1, 2));
    fetcher_.take().fail();
    EXPECT_EQ(fetcher_.waiting_range(), ByteRange(offset, 10));
    fetcher_.take().bring();
    EXPECT_TRUE(part.get());
  }
}

/// The memory of a block, too, must not be another's before all has come.
TEST_F(BlockPoolTest, ABlockStaysUntilItsLastSectorHasCome) {
  make_pool(1);
  foresee({sectors(15, 16)});
  auto read = begin_read(kBlock, 1);
  fetcher_.await(2);
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(15, 16), ByteRange(kBlock, 1)}));
  fetcher_.bring_all();
  EXPECT_TRUE(read.get());
}

TEST_F(BlockPoolTest, CountsBlocksThatNobodyHasRead) {
  make_pool(4);
  foresee({sectors(0, 1)});
  fetcher_.bring_all();
  foresee({blocks(4, 8)});
  EXPECT_EQ(pool_->figures().unread, kBlock) << "however few of its sectors were there";
  while (fetcher_.waiting() > 0) fetcher_.take().fail();
  EXPECT_EQ(pool_->figures().unread, kBlock) << "what has not come is not counted";
}

TEST_F(BlockPoolTest, WhatWasReadBeforeOvertakesNobody) {
  make_pool(16);
  for (std::uint64_t block = 100; block < 105; ++block) EXPECT_TRUE(fetches(block));
  foresee({blocks(0, 12)}, Foresight::kAhead);
  fetcher_.bring_all();
  foresee({blocks(20, 21)}, Foresight::kAhead);
  EXPECT_EQ(fetcher_.waiting(), 0U);
}

TEST_F(BlockPoolTest, TheLastSectorMayHaveAnyNumberOfBytes) {
  for (const std::uint64_t size : {kBlock + 1, kBlock + kSector - 1, kBlock + kSector,
                                   kBlock + kSector + 1, kBlock + 3 * kSector, 2 * kBlock}) {
    for (const bool by_blocks : {false, true}) {
      const test::ReadyFetcher fetcher(size, by_blocks);
      BlockPool pool(16 * kBlock);
      std::vector<std::byte> out(size);
      pool.read(pool.add_source(), fetcher, 0, out);
      EXPECT_TRUE(is_of_object(out, 0)) << size;
      std::uint64_t asked = 0;
      for (const auto& [range, when] : fetcher.asked()) asked += range.length();
      EXPECT_EQ(asked, size);
    }
  }
}

// --- what may hang -------------------------------------------------------------------------------

/// A read of a sector that is missing in a block of the pool.
class MissingSector : public BlockPoolTest {
 protected:
  void SetUp() override {
    make_pool(16);
    foresee({sectors(5, 6)});
    fetcher_.bring_all();
  }
  LeftReads left_;
};

TEST_F(MissingSector, IsReadAloneWhereItMayHang) {
  fetcher_.answers = Answering::kUnknown;
  auto read = std::async(std::launch::async, [&] { return leaves(left_, 7, 10); });
  fetcher_.await(2);
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(5, 6), ByteRange(7, 10)}));
  fetcher_.bring_all();
  EXPECT_FALSE(read.get());
}

TEST_F(MissingSector, IsNotAskedForWhereAnotherTriesAlready) {
  fetcher_.answers = Answering::kTried;
  EXPECT_TRUE(leaves(left_, 7, 10));
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(5, 6)});
}

TEST_F(MissingSector, IsNotAskedForAloneEither) {
  fetcher_.be_impatient();
  ASSERT_TRUE(leaves(left_, 7, 10));
  fetcher_.take().fail();
  fetcher_.answers = Answering::kTried;
  EXPECT_TRUE(leaves(left_, 7, 10));
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(5, 6), sectors(0, 1)}));
}

TEST_F(BlockPoolTest, WhoWaitsForAnothersRequestGoesOnWhenTheSourceMayAnswer) {
  make_pool(16);
  LeftReads left;
  foresee({sectors(0, 1)});
  fetcher_.answers = Answering::kNo;
  const auto stuck = leaves(left, 0, 10);
  ASSERT_TRUE(stuck);
  EXPECT_FALSE((*stuck->may_go_on)());
  fetcher_.answers = Answering::kUnknown;
  EXPECT_TRUE((*stuck->may_go_on)());
  fetcher_.bring_all();
}

TEST_F(BlockPoolTest, AStuckRequestOfASourceThatMayAnswerIsNotWaitedFor) {
  make_pool(16);
  foresee({sectors(0, 1)});
  const Asked stuck = fetcher_.take();
  fetcher_.be_impatient();
  fetcher_.answers = Answering::kUnknown;
  auto read = begin_read(7, 10);
  until([&] { return fetcher_.waiting() > 0 || fetcher_.looks() > 10; });
  EXPECT_EQ(fetcher_.waiting(), 1U);
  fetcher_.bring_all();
  stuck.bring();
  EXPECT_TRUE(read.get());
}

TEST_F(BlockPoolTest, AWaitThrowsWhatHasFailed) {
  make_pool(16);
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] {
    pool_->wait_for(fetcher_, [](const RangeFetcher::Done& done) {
      done(std::make_exception_ptr(Error(ErrorKind::kIo, "the test fails it")));
    });
  });
}

TEST_F(BlockPoolTest, AWaitOfAThreadThatMustNotLeaveGoesOn) {
  make_pool(16);
  fetcher_.be_impatient();
  std::promise<RangeFetcher::Done> begun;
  auto waits = std::async(std::launch::async, [&] {
    pool_->wait_for(fetcher_, [&](RangeFetcher::Done done) { begun.set_value(std::move(done)); });
  });
  const RangeFetcher::Done done = begun.get_future().get();
  fetcher_.await_looks(2);
  done(nullptr);
  waits.get();
}

}  // namespace
}  // namespace reshardfs
