// SPDX-License-Identifier: Apache-2.0
/// What ticks find: late work, and stalls.
#include <atomic>
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "fuse/queue/storage_queue.h"
#include "storage_queue_fixture.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using test::HangingFileSystem;
using test::kLimits;
using test::Step;
using test::StorageQueueTest;

// --- late work -----------------------------------------------------------------------------------

TEST_F(StorageQueueTest, WorkIsLateOnlyAfterATime) {
  const HangingFileSystem hanging;
  for (unsigned i = 0; i < kLimits(WaitClass::kRead).permits; ++i) start();
  submit(1);
  queue.tick(now);
  now += StorageQueue::kLateAfter - 1ms;
  queue.tick(now);
  EXPECT_EQ(offered, 0U);
  now += 1ms;
  queue.tick(now);
  EXPECT_EQ(offered, 1U);
  let_all_go();
}

TEST_F(StorageQueueTest, LateWorkGivesOnePermit) {
  const HangingFileSystem hanging;
  start(WaitClass::kAttribute);
  be_late();
  be_late();
  for (unsigned i = 0; i < kLimits(WaitClass::kAttribute).permits; ++i) {
    start(WaitClass::kAttribute);
  }
  submit(1, WaitClass::kAttribute);
  EXPECT_THAT(ran, testing::IsEmpty());
  let_all_go();
}

TEST_F(StorageQueueTest, LateWorkThatHasEndedCountsNoMore) {
  const HangingFileSystem hanging;
  const WaitLimits limits = kLimits(WaitClass::kAttribute);
  for (unsigned i = 0; i < limits.late; ++i) {
    start(WaitClass::kAttribute);
    be_late();
    end_last();
  }
  for (unsigned i = 0; i < limits.permits; ++i) start(WaitClass::kAttribute);
  be_late();
  submit(1, WaitClass::kAttribute);
  EXPECT_THAT(ran, testing::ElementsAre(1));
  let_all_go();
}

TEST_F(StorageQueueTest, WorkThatIsDoneAgainHasItsTimeAgain) {
  const HangingFileSystem hanging;
  Step& first = steps.emplace_back();
  Step& again = steps.emplace_back();
  std::atomic<int> runs = 0;
  threads.emplace_back([&] {
    queue.submit(nullptr, WaitClass::kRead, 0, [&] {
      if (++runs > 1) {
        again.begin();
        return done();
      }
      first.begin();
      throw StuckRead{std::make_shared<const std::function<bool()>>([] { return true; })};
    });
  });
  first.wait_until_begun();
  queue.tick(now);
  first.let_go();
  join();
  now += StorageQueue::kLateAfter;
  queue.tick(now);
  threads.emplace_back([this] { queue.help(); });
  again.wait_until_begun();
  steps.pop_front();
  for (unsigned i = 1; i < kLimits(WaitClass::kRead).permits; ++i) start();
  submit(1);
  offered = 0;
  queue.tick(now);
  EXPECT_EQ(offered, 0U);
  let_all_go();
}

// --- stalls --------------------------------------------------------------------------------------

TEST_F(StorageQueueTest, TellsOfTheReadThatHasWaitedLongest) {
  unsigned told = 0;
  queue.on_stall([&] { ++told; });
  start();
  ask(8, WaitClass::kRead, now + 2s);
  ask(7, WaitClass::kRead, now);
  ask(9, WaitClass::kRead, now + 1s);
  queue.tick(now + StallWatch::kAfter - 1ms);
  EXPECT_EQ(told, 0U);
  EXPECT_FALSE(queue.stall());
  queue.tick(now + StallWatch::kAfter + 2s);
  EXPECT_EQ(told, 1U);
  const auto stall = queue.stall();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->asked.inode, 7U);
  EXPECT_EQ(stall->waited, StallWatch::kAfter + 2s);
  let_all_go();
}

TEST_F(StorageQueueTest, OfReadsThatCameTogetherTellsOfTheFirst) {
  ask(7, WaitClass::kRead, now);
  ask(8, WaitClass::kRead, now);
  queue.tick(now + StallWatch::kAfter);
  const auto stall = queue.stall();
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->asked.inode, 7U);
  let_all_go();
}

TEST_F(StorageQueueTest, AReadOfTheStallTimeIsStalled) {
  ask(7, WaitClass::kRead, now);
  queue.tick(now + StallWatch::kAfter);
  EXPECT_TRUE(queue.stall());
  let_all_go();
}

TEST_F(StorageQueueTest, WhatOpensIsStalledFromItsBeginningOn) {
  ask(7, WaitClass::kDirectory, now - 1h);
  queue.tick(now);
  queue.tick(now + StallWatch::kAfter - 1ms);
  EXPECT_FALSE(queue.stall());
  queue.tick(now + StallWatch::kAfter);
  EXPECT_TRUE(queue.stall());
  let_all_go();
}

TEST_F(StorageQueueTest, WhatComputesIsNotStalled) {
  ask(7, WaitClass::kMade, now - 1h);
  ask(8, WaitClass::kAttribute, now - 1h);
  queue.tick(now);
  queue.tick(now + StallWatch::kAfter);
  EXPECT_FALSE(queue.stall());
  const HangingFileSystem hanging;
  queue.tick(now + StallWatch::kAfter);
  const auto stall = queue.stall();
  ASSERT_TRUE(stall) << "an attribute may need what hangs";
  EXPECT_EQ(stall->asked.inode, 8U);
  let_all_go();
}

TEST_F(StorageQueueTest, CountsTheTicksOfTheOldestRequest) {
  ask(7, WaitClass::kRead, now);
  queue.tick(now);
  queue.tick(now);
  ask(8, WaitClass::kRead, now);
  start();
  queue.tick(now);
  EXPECT_EQ(counters().values().oldest_wait, 3 * Ticker::kInterval);
  let_all_go();
  queue.tick(now);
  EXPECT_EQ(counters().values().oldest_wait, 0s);
}

}  // namespace
}  // namespace reshardfs
