// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/storage_queue.h"

#include <atomic>
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage_queue_fixture.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using test::HangingFileSystem;
using test::kLimits;
using test::Step;
using test::StorageQueueTest;

TEST_F(StorageQueueTest, RunsWorkOnTheThreadThatBringsIt) {
  submit(1);
  EXPECT_THAT(ran, testing::ElementsAre(1));
  EXPECT_FALSE(queue.tick(now));
}

TEST_F(StorageQueueTest, WorkWithoutAPermitRunsWhenOtherWorkEnds) {
  for (unsigned i = 0; i < kLimits(WaitClass::kRead).permits; ++i) start();
  submit(1);
  submit(2, WaitClass::kMade);
  EXPECT_THAT(ran, testing::ElementsAre(2)) << "classes have permits of their own";
  EXPECT_TRUE(queue.tick(now));
  EXPECT_EQ(offered, 0U);
  let_all_go();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
}

TEST_F(StorageQueueTest, LateWorkGivesItsPermitToOthersWhileAReadHangs) {
  for (unsigned i = 0; i < kLimits(WaitClass::kRead).permits; ++i) start();
  submit(1);
  be_late();
  EXPECT_EQ(offered, 0U) << "what takes long may compute";
  const HangingFileSystem hanging;
  queue.tick(now);
  EXPECT_EQ(offered, 1U);
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(1));
  submit(2);
  EXPECT_THAT(ran, testing::ElementsAre(1, 2));
  let_all_go();
}

TEST_F(StorageQueueTest, WorkThatComputesIsNeverLate) {
  for (unsigned i = 0; i < kLimits(WaitClass::kMade).permits; ++i) start(WaitClass::kMade);
  submit(1, WaitClass::kMade);
  const HangingFileSystem hanging;
  be_late();
  EXPECT_EQ(offered, 0U);
  EXPECT_THAT(ran, testing::IsEmpty());
  let_all_go();
  EXPECT_THAT(ran, testing::ElementsAre(1));
}

TEST_F(StorageQueueTest, NoMoreThanItsShareIsLate) {
  const WaitLimits limits = kLimits(WaitClass::kAttribute);
  const HangingFileSystem hanging;
  for (unsigned i = 0; i < limits.permits + limits.late; ++i) {
    start(WaitClass::kAttribute);
    be_late();
  }
  submit(1, WaitClass::kAttribute);
  be_late();
  EXPECT_THAT(ran, testing::IsEmpty());
  submit(2);
  EXPECT_THAT(ran, testing::ElementsAre(2)) << "other classes have theirs";
  let_all_go();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
}

TEST_F(StorageQueueTest, AnyNumberOfStuckReadsTakesNoThreadsAndNoPermits) {
  std::atomic<bool> hangs = true;
  for (int i = 0; i < 1000; ++i) submit_stuck(i, hangs);
  EXPECT_THAT(ran, testing::IsEmpty());
  EXPECT_EQ(queue.threads_taken(), 0U);
  submit(-1);
  EXPECT_THAT(ran, testing::ElementsAre(-1));
  EXPECT_TRUE(queue.tick(now)) << "they are looked after";
  EXPECT_EQ(offered, 0U);
  hangs = false;
  EXPECT_TRUE(queue.tick(now)) << "they wait for a thread";
  EXPECT_EQ(offered, kLimits(WaitClass::kRead).permits);
  queue.help();
  EXPECT_EQ(ran.size(), 1001U);
  EXPECT_FALSE(queue.tick(now));
}

TEST_F(StorageQueueTest, WorkIsDoneAgainWhenWhatItMetIsOver) {
  std::atomic<bool> first = true;
  std::atomic<bool> second = true;
  submit_stuck(1, first);
  submit_stuck(2, second);
  second = false;
  queue.tick(now);
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(2));
  queue.tick(now);
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(2)) << "the other one hangs";
  first = false;
  queue.tick(now);
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
}

TEST_F(StorageQueueTest, OnlyReadsLeaveTheirThreads) {
  LeftReads* left = nullptr;
  for (const WaitClass kind : {WaitClass::kAttribute, WaitClass::kDirectory, WaitClass::kFile}) {
    queue.submit(nullptr, kind, 0, [&left] {
      left = LeftReads::of_thread();
      return done();
    });
    EXPECT_EQ(left, nullptr) << "what it has read so far would be lost";
  }
}

TEST_F(StorageQueueTest, OnePendingDirectoryIsOpenedByOneAtATime) {
  Step& first = start(WaitClass::kDirectory, 7);
  for (int i = 0; i < 10; ++i) submit(i, WaitClass::kDirectory, 7);
  EXPECT_THAT(ran, testing::IsEmpty());
  be_late();
  EXPECT_EQ(offered, 0U) << "they wait although there are permits";
  submit(100, WaitClass::kDirectory, 8);
  EXPECT_THAT(ran, testing::ElementsAre(100)) << "others are not kept";
  submit(101, WaitClass::kRead, 7);
  submit(102, WaitClass::kRead, 7);
  EXPECT_THAT(ran, testing::ElementsAre(100, 101, 102));
  first.let_go();
  join();
  EXPECT_EQ(ran.size(), 13U);
}

TEST_F(StorageQueueTest, AnyNodeIsOpenedByOneAtATimeAndWorkWithoutANodeByMany) {
  start(WaitClass::kFile, 1);
  submit(1, WaitClass::kFile, 1);
  start(WaitClass::kFile, 0);
  submit(2, WaitClass::kFile, 0);
  EXPECT_THAT(ran, testing::ElementsAre(2));
  let_all_go();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
}

TEST_F(StorageQueueTest, WorkThatFollowsOnOtherWorkHasAPermit) {
  for (unsigned i = 0; i < kLimits(WaitClass::kRead).permits; ++i) start();
  Step& next = queued();
  steps.front().let_go();
  next.wait_until_begun();
  submit(1);
  EXPECT_THAT(ran, testing::IsEmpty());
  steps.pop_front();
  let_all_go();
  EXPECT_THAT(ran, testing::ElementsAre(1));
}

TEST_F(StorageQueueTest, TellsOfEachThreadThatItTakes) {
  unsigned taken = 0;
  queue.on_thread_taken([&] { taken += queue.threads_taken(); });
  submit(1);
  submit(2);
  EXPECT_EQ(taken, 2U);
}

TEST_F(StorageQueueTest, OffersWorkOfEachClass) {
  const HangingFileSystem hanging;
  for (unsigned i = 0; i < kLimits(WaitClass::kFile).permits; ++i) start(WaitClass::kFile);
  submit(1, WaitClass::kFile);
  be_late();
  EXPECT_EQ(offered, 1U);
  let_all_go();
}

TEST_F(StorageQueueTest, NeedsNobodyToTell) {
  StorageQueue alone{StorageQueue::Ticks::kByHand};
  bool hangs = true;
  alone.submit(nullptr, WaitClass::kRead, 0, [&hangs] {
    if (hangs) throw StuckRead{std::make_shared<const std::function<bool()>>([] { return true; })};
    return done();
  });
  EXPECT_TRUE(alone.tick(now));
  hangs = false;
  alone.help();
  EXPECT_FALSE(alone.tick(now));
}

}  // namespace
}  // namespace reshardfs
