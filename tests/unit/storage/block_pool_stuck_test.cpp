// SPDX-License-Identifier: Apache-2.0
/// Reads of the pool that are stuck, and what becomes of those that are left.
#include <array>
#include <chrono>
#include <future>
#include <string>
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
using test::is_of_object;
using test::kBlock;
using test::kSector;
using test::Ranges;
using test::sectors;

TEST_F(BlockPoolTest, WhoWaitsForAnothersRequestThatIsStuckFetchesItsOwnBytes) {
  make_pool(16);
  foresee({sectors(0, 4)});
  const Asked stuck = fetcher_.take();
  fetcher_.be_impatient();
  auto read = begin_read(kSector, 10);
  EXPECT_EQ(fetcher_.waiting_range(), ByteRange(kSector, 10));
  fetcher_.take().bring();
  EXPECT_TRUE(read.get());
  stuck.bring();
}

TEST_F(BlockPoolTest, WhatOnlyWaitsForItsTurnIsWaitedFor) {
  make_pool(16);
  LeftReads left;
  fetcher_.be_impatient();
  fetcher_.answers = Answering::kYes;
  foresee({sectors(0, 4)});
  auto shared = begin_read(0, 10);
  auto own = std::async(std::launch::async, [&] { return leaves(left, 100 * kSector, 10); });
  fetcher_.await(2);
  fetcher_.await_looks(10);  // for a mistake to show
  EXPECT_EQ(fetcher_.ranges().size(), 2U);
  fetcher_.bring_all();
  EXPECT_TRUE(shared.get());
  EXPECT_FALSE(own.get());
}

TEST_F(BlockPoolTest, AThreadThatMayLeavesWhatIsStuck) {
  make_pool(16);
  LeftReads left;
  fetcher_.be_impatient();
  const auto stuck = leaves(left, 0, 10);
  ASSERT_TRUE(stuck);
  EXPECT_FALSE((*stuck->may_go_on)());
  fetcher_.take().bring();
  EXPECT_TRUE((*stuck->may_go_on)());
  EXPECT_FALSE(leaves(left, 0, 10));
}

TEST_F(BlockPoolTest, AThreadLeavesAtOnceWhereNothingComes) {
  make_pool(16);
  LeftReads left;
  LeftReads others;
  fetcher_.answers = Answering::kNo;
  ASSERT_TRUE(leaves(left, 0, 10));
  const auto shared = leaves(others, 20, 10);
  ASSERT_TRUE(shared);
  EXPECT_EQ(fetcher_.ranges(), Ranges{sectors(0, 1)});
  EXPECT_FALSE((*shared->may_go_on)());
  fetcher_.answers = Answering::kYes;
  EXPECT_TRUE((*shared->may_go_on)()) << "it may fetch its bytes by itself";
  fetcher_.bring_all();
}

TEST_F(BlockPoolTest, NothingMoreIsAskedOfWhatIsTriedAlready) {
  make_pool(2);
  LeftReads left;
  auto read = begin_read(0, 1);
  fetcher_.take().bring();
  EXPECT_TRUE(read.get());
  fetcher_.answers = Answering::kTried;
  const auto stuck = leaves(left, kBlock, 10);
  ASSERT_TRUE(stuck);
  const auto without_room = leaves(left, kBlock, 3 * kBlock);
  ASSERT_TRUE(without_room);
  EXPECT_EQ(fetcher_.ranges().size(), 1U);
  EXPECT_FALSE((*stuck->may_go_on)() || (*without_room->may_go_on)());
  EXPECT_FALSE(leaves(left, 0, 10)) << "what is in memory is read";
  fetcher_.answers = Answering::kNo;
  EXPECT_TRUE((*stuck->may_go_on)() && (*without_room->may_go_on)()) << "another one may try it";
}

TEST_F(BlockPoolTest, WhatMayHangTakesNoPlace) {
  make_pool(16);
  LeftReads left;
  fetcher_.answers = Answering::kUnknown;
  auto read = std::async(std::launch::async, [&] { return leaves(left, 5, 10); });
  fetcher_.await(1);
  EXPECT_EQ(fetcher_.ranges(), Ranges{ByteRange(5, 10)});
  fetcher_.take().bring();
  EXPECT_FALSE(read.get());
  EXPECT_EQ(pool_->figures().blocks, 0U);
}

TEST_F(BlockPoolTest, WhatWasLeftIsFoundAgain) {
  make_pool(16);
  LeftReads left;
  fetcher_.be_impatient();
  const LeftReads::Scope scope(left);
  std::vector<std::byte> out(10);
  EXPECT_THROW(pool_->read_alone(fetcher_, 7, out), StuckRead);
  fetcher_.take().bring();
  // As often as the work is done again, because another read is stuck.
  for (int i = 0; i < 2; ++i) {
    std::fill(out.begin(), out.end(), std::byte());
    pool_->read_alone(fetcher_, 7, out);
    EXPECT_TRUE(is_of_object(out, 7));
  }
  EXPECT_EQ(fetcher_.ranges(), Ranges{ByteRange(7, 10)});
  EXPECT_EQ(pool_->figures().blocks, 0U);
}

TEST_F(BlockPoolTest, ReadsAloneUseTheSameMemory) {
  make_pool(16);
  fetcher_.be_impatient();
  std::vector<std::byte> out(kSector);
  std::array<const std::byte*, 2> memory{};
  for (std::uint64_t i = 0; i < memory.size(); ++i) {
    auto read =
        std::async(std::launch::async, [&] { pool_->read_alone(fetcher_, i * kSector, out); });
    const Asked asked = fetcher_.take();
    memory.at(i) = asked.out.front().data();
    asked.bring();
    read.get();
    EXPECT_TRUE(is_of_object(out, i * kSector));
  }
  EXPECT_EQ(memory[0], memory[1]);
}

TEST_F(BlockPoolTest, AReadThatWasLeftAndHasFailedEnds) {
  make_pool(16);
  LeftReads left;
  fetcher_.be_impatient();
  ASSERT_TRUE(leaves(left, 5, 10));
  fetcher_.take().fail();
  ASSERT_TRUE(leaves(left, 5, 10)) << "its own bytes alone";
  EXPECT_EQ(fetcher_.ranges(), (Ranges{sectors(0, 1), ByteRange(5, 10)}));
  fetcher_.take().fail();
  expect_error(ErrorKind::kIo, {"the test fails it"}, [&] { leaves(left, 5, 10); });
  EXPECT_EQ(fetcher_.ranges().size(), 2U);
}

TEST(LeftReads, MayBeLeftAFewTimes) {
  LeftReads left;
  std::string times;
  for (int i = 0; i < 7; ++i) times += left.may_leave_again() ? 'y' : 'n';
  EXPECT_EQ(times, "yyynnnn");
}

TEST_F(BlockPoolTest, WhatCannotBeKeptIsLeftAFewTimes) {
  make_pool(16);
  LeftReads left;
  fetcher_.be_impatient();
  std::vector<RangeFetcher::Done> begun;
  const auto begin = [&](RangeFetcher::Done done) { begun.push_back(std::move(done)); };
  {
    const LeftReads::Scope scope(left);
    for (int i = 0; i < 3; ++i) EXPECT_THROW(pool_->wait_for(fetcher_, begin), StuckRead);
  }
  std::promise<void> began;
  auto waits = std::async(std::launch::async, [&] {
    const LeftReads::Scope scope(left);
    pool_->wait_for(fetcher_, [&](RangeFetcher::Done done) {
      begin(std::move(done));
      began.set_value();
    });
  });
  began.get_future().wait();
  for (const auto& done : begun) done(nullptr);
  waits.get();
}

}  // namespace
}  // namespace reshardfs
