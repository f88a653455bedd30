// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/storage_queue.h"

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/local/file_system_speed.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimits = [](WaitClass kind) { return kWaitLimits[static_cast<std::size_t>(kind)]; };

/// Work that begins, waits until it is let go, and ends.
class Step {
 public:
  void begin() {
    begun_.set_value();
    go_.get_future().wait();
  }
  void wait_until_begun() { has_begun_.wait(); }
  bool has_begun() const { return has_begun_.wait_for(0s) == std::future_status::ready; }
  void let_go() { go_.set_value(); }

 private:
  std::promise<void> begun_;
  std::future<void> has_begun_ = begun_.get_future();
  std::promise<void> go_;
};

class StorageQueueTest : public testing::Test {
 protected:
  StorageQueueTest() {
    queue.on_spare_permits([this](unsigned count) { offered += count; });
  }
  ~StorageQueueTest() override { join(); }

  void join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  static Reply done() { return Reply::error(0); }

  /// On a thread of its own: work that runs until it is let go.
  Step& start(WaitClass kind = WaitClass::kRead, InodeNumber node = 0) {
    Step& step = steps.emplace_back();
    threads.emplace_back([this, kind, node, &step] {
      queue.submit(nullptr, kind, node, [&step] {
        step.begin();
        return done();
      });
    });
    step.wait_until_begun();
    return step;
  }
  void let_all_go() {
    for (Step& step : steps) step.let_go();
    join();
  }
  /// On this thread: work that adds its number to `ran`.
  void submit(int number, WaitClass kind = WaitClass::kRead, InodeNumber node = 0) {
    queue.submit(nullptr, kind, node, [this, number] {
      ran.push_back(number);
      return done();
    });
  }
  /// Work that meets a read that is stuck, as long as `hangs`.
  void submit_stuck(int number, const std::atomic<bool>& hangs) {
    queue.submit(nullptr, WaitClass::kRead, 0, [this, number, &hangs] {
      EXPECT_NE(LeftReads::of_thread(), nullptr);
      if (hangs) {
        const auto may_go_on = [&hangs] { return !hangs; };
        throw StuckRead{std::make_shared<const std::function<bool()>>(may_go_on)};
      }
      ran.push_back(number);
      return done();
    });
  }
  /// Ticks until what runs is late.
  void be_late() {
    queue.tick(now);
    now += StorageQueue::kLateAfter;
    queue.tick(now);
  }

  StorageQueue queue{StorageQueue::Ticks::kByHand};
  StorageQueue::Clock::time_point now{1h};
  std::atomic<unsigned> offered = 0;
  std::vector<int> ran;
  std::deque<Step> steps;
  std::vector<std::thread> threads;
};

/// A file system of which a read is stuck.
class HangingFileSystem {
 public:
  HangingFileSystem() { speed_->add_stuck(1); }
  HangingFileSystem(const HangingFileSystem&) = delete;
  HangingFileSystem& operator=(const HangingFileSystem&) = delete;
  ~HangingFileSystem() { speed_->add_stuck(-1); }

 private:
  const std::shared_ptr<FileSystemSpeed> speed_ = FileSystemSpeed::of(4711);
};

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
  queue.tick(now);
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

}  // namespace
}  // namespace reshardfs
