// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/block_pool.h"

#include <array>
#include <barrier>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
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
using test::kBlock;
using test::kSector;
using test::Ranges;
using test::sectors;
using test::until;

TEST_F(BlockPoolTest, OneRequestBringsNeighbours) {
  make_pool(16);
  foresee({sectors(1, 2), sectors(0, 1), sectors(2, 3)});
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(0, 3)});
  // And those of two blocks, in a piece of memory for each.
  foresee({sectors(31, 33)});
  EXPECT_EQ(fetcher_.ranges().back(), sectors(31, 33));
  fetcher_.take().bring();
  const Asked across = fetcher_.take();
  EXPECT_EQ(across.out.size(), 2U);
  across.bring();
}

TEST_F(BlockPoolTest, ReadsAsFewSectorsAsItCan) {
  make_pool(16);
  auto read = begin_read(kBlock - 1, 2);
  fetcher_.await(1);
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(15, 17)});
  fetcher_.bring_all();
  EXPECT_TRUE(read.get());
}

TEST_F(BlockPoolTest, BridgesGapsOfEightSectors) {
  make_pool(16);
  foresee({sectors(0, 1), sectors(9, 10)});
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(0, 10)});
  foresee({sectors(32, 33), sectors(42, 43)});
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(0, 10), sectors(32, 33), sectors(42, 43)}));
}

TEST_F(BlockPoolTest, DoesNotBridgeWhatIsThere) {
  make_pool(16);
  foresee({sectors(2, 4)});
  foresee({sectors(0, 1), sectors(5, 6)});
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(2, 4), sectors(0, 2), sectors(4, 6)}));
}

TEST_F(BlockPoolTest, ReadersOfOneSectorShareARequest) {
  make_pool(16);
  auto first = begin_read(10, 100);
  fetcher_.await(1);
  auto second = begin_read(200, 300);
  until([&] { return pool_->figures().hits >= 300; });
  auto third = begin_read(kSector - 1, 2);  // of the next sector, too
  fetcher_.await(2);
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(0, 1), sectors(1, 2)}));
  EXPECT_FALSE(is_ready(first) || is_ready(second) || is_ready(third));
  fetcher_.take().bring();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_FALSE(is_ready(third));
  fetcher_.take().bring();
  EXPECT_TRUE(third.get());
  EXPECT_EQ(pool_->figures().requests, 2U);
}

TEST_F(BlockPoolTest, RequestsAreNoLargerThanEightMebibytes) {
  make_pool(256);
  foresee({blocks(0, 4)});
  EXPECT_EQ(lengths(), std::vector<std::uint64_t>(4, kBlock)) << "several at once";
  foresee({blocks(100, 164)});
  foresee({blocks(200, 301)});
  std::uint64_t end = 0;
  for (const ByteRange& range : fetcher_.ranges()) {
    EXPECT_LE(range.length(), BlockPool::kMaxRequest);
    if (range.offset() != 100 * kBlock && range.offset() != 200 * kBlock) {
      EXPECT_EQ(range.offset(), end);
    }
    end = range.end();
  }
  EXPECT_EQ(end, 301 * kBlock);
  EXPECT_EQ(pool_->figures().fetched, (4 + 64 + 101) * kBlock);
  while (fetcher_.waiting() > 0) fetcher_.take().fail();  // to bring all that takes its time
}

TEST_F(BlockPoolTest, TheLastBlockEndsWithTheObject) {
  make_pool(16);
  auto read = begin_read(fetcher_.size() - 100, 100);
  const Asked asked = fetcher_.take();
  EXPECT_EQ(asked.range, ByteRange(1'000 * kBlock, 12'345));
  std::size_t room = 0;
  for (const auto& piece : asked.out) room += piece.size();
  EXPECT_EQ(room, 12'345U);
  asked.bring();
  EXPECT_TRUE(read.get());
}

TEST_F(BlockPoolTest, TheLeastRecentlyReadGoesFirst) {
  make_pool(4);
  for (const std::uint64_t block : {0U, 1U, 0U}) fetches(block);
  foresee({blocks(2, 4)});
  fetcher_.bring_all();
  EXPECT_TRUE(fetches(4)) << "instead of 1";
  EXPECT_TRUE(fetches(5)) << "instead of 0";
  EXPECT_FALSE(fetches(2)) << "nobody had read it before";
  EXPECT_FALSE(fetches(3));
  EXPECT_FALSE(fetches(4));
  EXPECT_FALSE(fetches(5));
  EXPECT_TRUE(fetches(0)) << "instead of 2";
  EXPECT_FALSE(fetches(3));
  EXPECT_TRUE(fetches(1)) << "instead of 4";
  EXPECT_TRUE(fetches(2)) << "instead of 5";
  EXPECT_EQ(pool_->figures().unread, 0U);
  EXPECT_EQ(pool_->figures().blocks, 4U);
}

TEST_F(BlockPoolTest, UnreadBlocksGoWhereThereAreNoOthers) {
  make_pool(4);
  foresee({blocks(0, 4)});
  fetcher_.bring_all();
  EXPECT_TRUE(fetches(9));
  EXPECT_EQ(pool_->figures().unread, kBlock);
  EXPECT_FALSE(fetches(1));
  EXPECT_FALSE(fetches(3));
  EXPECT_TRUE(fetches(0)) << "the oldest";
  EXPECT_EQ(pool_->figures().blocks, 4U);
}

TEST_F(BlockPoolTest, WhatIsUnderWayStays) {
  make_pool(4);
  foresee({blocks(0, 4)});
  foresee({blocks(8, 12)});
  EXPECT_EQ(pool_->figures().blocks, 4U);
  EXPECT_EQ(fetcher_.ranges().back().end(), 4 * kBlock);
  fetcher_.bring_all();
  for (const std::uint64_t block : {0U, 1U, 2U, 3U}) EXPECT_FALSE(fetches(block));
}

TEST_F(BlockPoolTest, FetchesPastItselfWhereAllIsInUse) {
  make_pool(2);
  auto first = begin_read(0, 2 * kBlock);
  fetcher_.await(2);
  auto second = begin_read(2 * kBlock + 5, 7);
  fetcher_.await(3);
  EXPECT_EQ(fetcher_.ranges().back(), ByteRange(2 * kBlock + 5, 7));
  const Asked one = fetcher_.take();
  const Asked two = fetcher_.take();
  fetcher_.take().bring();
  EXPECT_TRUE(second.get());
  auto third = begin_read(3 * kBlock, 1);
  fetcher_.take().fail();
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] { third.get(); });
  one.bring();
  two.bring();
  EXPECT_TRUE(first.get());
  EXPECT_EQ(pool_->figures().blocks, 2U);
  EXPECT_TRUE(fetches(2)) << "it was not kept";
}

TEST_F(BlockPoolTest, AReadOfMoreThanThePoolHasComes) {
  make_pool(2);
  auto read = begin_read(kBlock / 2, 20 * kBlock);
  while (!is_ready(read)) {
    if (fetcher_.waiting() > 0) fetcher_.take().bring();
    EXPECT_LE(pool_->figures().blocks, 2U);
  }
  EXPECT_TRUE(read.get());
}

TEST_F(BlockPoolTest, WhoWaitsForAnothersRequestThatFailsFetchesItsOwnBytes) {
  make_pool(16);
  foresee({sectors(0, 4)});
  auto first = begin_read(0, 10);
  auto second = begin_read(3 * kSector, kSector);
  until([&] { return pool_->figures().hits >= 10 + kSector; });
  fetcher_.take().fail();
  fetcher_.await(3);
  for (int i = 0; i < 2; ++i) {
    const Asked asked = fetcher_.take();
    if (asked.range.length() == 10) {
      EXPECT_EQ(asked.range, ByteRange(0, 10)) << "nothing that may fail for another reason";
      asked.fail();
    } else {
      EXPECT_EQ(asked.range, sectors(3, 4));
      asked.bring();
    }
  }
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] { first.get(); });
  EXPECT_TRUE(second.get()) << "its bytes are good";
  EXPECT_TRUE(fetches(0)) << "the next one tries again";
}

TEST_F(BlockPoolTest, AServerIsNotAskedAgainForWhatItHasRefused) {
  make_pool(16);
  auto read = begin_read(0, 10);
  fetcher_.take().fail();
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] { read.get(); });
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(0, 1)});
}

TEST_F(BlockPoolTest, ABadSectorFailsOnlyWhatIsInIt) {
  make_pool(16);
  fetcher_.is_file = true;
  auto read = begin_read(5, 10);
  EXPECT_EQ(fetcher_.waiting_range(), sectors(0, 1));
  fetcher_.take().fail();
  EXPECT_EQ(fetcher_.waiting_range(), ByteRange(5, 10));
  fetcher_.take().bring();
  EXPECT_TRUE(read.get());
}

// Who catches an error adds to it what is known there, such as a parameter.
TEST_F(BlockPoolTest, AllWhoWaitGetAnErrorOfTheirOwn) {
  make_pool(16);
  std::barrier both_have_it(2);
  const auto address_of_error = [&] {
    std::vector<std::byte> out(10);
    const Error* address = nullptr;
    try {
      pool_->read(source_, fetcher_, 0, out);
    } catch (const Error& error) {
      address = &error;
      both_have_it.arrive_and_wait();
    }
    return address;
  };
  auto first = std::async(std::launch::async, address_of_error);
  fetcher_.await(1);
  auto second = std::async(std::launch::async, address_of_error);
  until([&] { return pool_->figures().hits >= 10; });
  fetcher_.take().fail();
  fetcher_.take().fail();
  EXPECT_NE(first.get(), second.get());
}

// --- what hangs ----------------------------------------------------------------------------------

TEST_F(BlockPoolTest, AFailureOfAPartKeepsTheOthers) {
  make_pool(16);
  auto read = begin_read(0, 2 * kBlock);
  fetcher_.await(2);
  const Asked first = fetcher_.take();
  const Asked second = fetcher_.take();
  second.bring();
  first.fail();
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] { read.get(); });
  auto again = begin_read(0, 2 * kBlock);
  const Asked third = fetcher_.take();
  EXPECT_EQ(third.range, first.range);
  third.bring();
  EXPECT_TRUE(again.get());
  EXPECT_EQ(fetcher_.ranges().size(), 3U);
}

TEST_F(BlockPoolTest, FailuresOfWhatNobodyReadsAreForgotten) {
  make_pool(16);
  foresee({blocks(0, 1)}, Foresight::kAhead);
  fetcher_.take().fail();
  EXPECT_TRUE(fetches(0));
}

TEST_F(BlockPoolTest, ARequestThatCannotBeMadeFailsTheRead) {
  make_pool(16);
  fetcher_.refuse(2);
  foresee({blocks(0, 1)});  // no reader, no error
  expect_error(ErrorKind::kIo, {"no request can be made"}, [&] { begin_read(0, 1).get(); });
  EXPECT_TRUE(fetches(0));
}

TEST_F(BlockPoolTest, WhatIsForeseenAheadLeavesRoom) {
  make_pool(8);
  foresee({blocks(0, 8)}, Foresight::kAhead);
  EXPECT_EQ(pool_->figures().fetched, 6 * kBlock) << "three quarters";
  for (const ByteRange& range : fetcher_.ranges()) EXPECT_LE(range.end(), 6 * kBlock);
  fetcher_.bring_all();
  foresee({blocks(6, 7)}, Foresight::kAhead);
  EXPECT_EQ(fetcher_.waiting(), 0U);
  EXPECT_FALSE(fetches(0));
  foresee({blocks(6, 8)}, Foresight::kAhead);
  EXPECT_EQ(pool_->figures().fetched, 7 * kBlock) << "one was read";
  fetcher_.bring_all();
  foresee({blocks(20, 22)}, Foresight::kNow);
  EXPECT_EQ(pool_->figures().fetched, 9 * kBlock) << "what is needed now comes";
}

TEST_F(BlockPoolTest, WhatAReaderLeftMakesRoomWhenOthersHaveOvertakenIt) {
  make_pool(16);
  foresee({blocks(0, 12)}, Foresight::kAhead);
  fetcher_.bring_all();
  for (std::uint64_t block = 100; block < 104; ++block) EXPECT_TRUE(fetches(block));
  foresee({blocks(104, 106)}, Foresight::kAhead);
  EXPECT_EQ(fetcher_.waiting(), 0U) << "no more than a quarter was read since";
  EXPECT_TRUE(fetches(200));
  foresee({blocks(201, 203)}, Foresight::kAhead);
  EXPECT_EQ(fetcher_.ranges().back(), blocks(202, 203));
  fetcher_.bring_all();
  EXPECT_EQ(pool_->figures().unread, 2 * kBlock);
  EXPECT_FALSE(fetches(11)) << "the oldest go first";
  EXPECT_FALSE(fetches(2));
  EXPECT_TRUE(fetches(1));
}

TEST_F(BlockPoolTest, TellsHowSoonItIsNeeded) {
  make_pool(16);
  foresee({blocks(0, 1)}, Foresight::kAhead);
  foresee({blocks(2, 3)}, Foresight::kNow);
  const Asked ahead = fetcher_.take();
  EXPECT_EQ(ahead.when, Foresight::kAhead);
  ahead.bring();
  const Asked now = fetcher_.take();
  EXPECT_EQ(now.when, Foresight::kNow);
  now.bring();
  foresee({blocks(0, 1), blocks(2, 3), ByteRange()});
  EXPECT_EQ(fetcher_.waiting(), 0U) << "all is there";
}

TEST_F(BlockPoolTest, WhatFailedTakesNoRoom) {
  make_pool(8);
  foresee({blocks(0, 6)}, Foresight::kAhead);
  while (fetcher_.waiting() > 0) fetcher_.take().fail();
  EXPECT_EQ(pool_->figures().blocks, 0U);
  foresee({blocks(10, 12)}, Foresight::kAhead);
  EXPECT_EQ(fetcher_.waiting(), 2U);
}

TEST_F(BlockPoolTest, WhatFoundNoRoomTakesNone) {
  make_pool(2);
  auto first = begin_read(0, 1);
  fetcher_.await(1);
  auto second = begin_read(4 * kBlock, 2 * kBlock);
  fetcher_.await(2);
  EXPECT_EQ(pool_->figures().blocks, 1U);
  fetcher_.bring_all();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
}

TEST_F(BlockPoolTest, SourcesAreForgotten) {
  make_pool(16);
  fetches(0);
  fetches(1);
  foresee({blocks(3, 4)});
  fetcher_.bring_all();
  const std::uint64_t other = pool_->add_source();
  EXPECT_NE(other, source_);
  pool_->foresee(other, fetcher_, std::vector<ByteRange>{blocks(0, 1)}, Foresight::kNow);
  EXPECT_EQ(fetcher_.waiting(), 1U) << "it is another file";
  fetcher_.bring_all();
  foresee({blocks(8, 9)});
  EXPECT_EQ(pool_->figures().blocks, 5U);
  pool_->remove_source(source_);
  EXPECT_EQ(pool_->figures().blocks, 2U) << "of the other, and on its way";
  fetcher_.bring_all();
  source_ = other;
  EXPECT_FALSE(fetches(0));
}

TEST(BlockPool, HasRoomForOneReaderAtLeast) {
  BlockPool pool(0);
  pool.set_capacity(1);
  EXPECT_EQ(pool.capacity(), 8 * kBlock);
  pool.set_capacity(100 * kBlock);
  EXPECT_EQ(pool.capacity(), 100 * kBlock);
  EXPECT_EQ(pool.window(), 16 * kBlock) << "nothing is known of the servers";
  pool.set_capacity(20 * kBlock);
  EXPECT_EQ(pool.window(), 10 * kBlock) << "half of it";
}

}  // namespace
}  // namespace reshardfs
