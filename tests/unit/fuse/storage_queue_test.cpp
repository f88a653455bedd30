// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/storage_queue.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sources.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using Key = StorageQueue::Key;

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
  static Key key_of(const ByteSource* source) {
    return source == nullptr ? Key{} : Key{{.source = source}};
  }

  /// On a thread of its own: work that is in `source` until it is let go.
  Step& start_stuck(const ByteSource* source, WaitClass kind = WaitClass::kRead) {
    Step& step = steps.emplace_back();
    threads.emplace_back([this, source, kind, &step] {
      queue.submit(
          nullptr, kind, [source] { return key_of(source); },
          [source, &step] {
            now_using(source);
            step.begin();
            return done();
          });
    });
    step.wait_until_begun();
    return step;
  }
  /// On this thread: work that adds its number to `ran`.
  void submit(int number, const ByteSource* source = nullptr, WaitClass kind = WaitClass::kRead) {
    queue.submit(
        nullptr, kind,
        [this, source] {
          ++keys_asked;
          return key_of(source);
        },
        [this, number] {
          ran.push_back(number);
          return done();
        });
  }
  /// Ticks until what is stuck is known to be.
  void find_stuck() {
    queue.tick(now);
    now += StorageQueue::kStuckAfter;
    queue.tick(now);
  }

  StorageQueue queue{StorageQueue::Ticks::kByHand};
  StorageQueue::Clock::time_point now{1h};
  std::atomic<unsigned> offered = 0;
  const std::shared_ptr<const ByteSource> a = std::make_shared<test::MemorySource>("a");
  const std::shared_ptr<const ByteSource> b = std::make_shared<test::MemorySource>("b");
  std::vector<int> ran;
  int keys_asked = 0;
  std::deque<Step> steps;
  std::vector<std::thread> threads;
};

TEST_F(StorageQueueTest, RunsWorkOnTheThreadThatBringsIt) {
  submit(1);
  EXPECT_THAT(ran, testing::ElementsAre(1));
  EXPECT_EQ(keys_asked, 0) << "what work reads costs nothing while no source is stuck";
  EXPECT_FALSE(queue.tick(now));
}

TEST_F(StorageQueueTest, WorkWithoutAPermitRunsWhenOtherWorkEnds) {
  for (unsigned i = 0; i < kLimits(WaitClass::kRead).permits; ++i) start_stuck(nullptr);
  submit(1);
  submit(2, nullptr, WaitClass::kMade);
  EXPECT_THAT(ran, testing::ElementsAre(2)) << "classes have permits of their own";
  EXPECT_TRUE(queue.tick(now));
  EXPECT_EQ(offered, 0U);
  for (Step& step : steps) step.let_go();
  join();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
}

TEST_F(StorageQueueTest, WorkThatIsStuckInASourceGivesItsPermitToOthers) {
  for (unsigned i = 0; i < kLimits(WaitClass::kRead).permits; ++i) start_stuck(a.get());
  submit(1, b.get());
  EXPECT_THAT(ran, testing::IsEmpty());
  find_stuck();
  EXPECT_EQ(offered, 1U);
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(1));
  submit(2, b.get());
  EXPECT_THAT(ran, testing::ElementsAre(1, 2));
  for (Step& step : steps) step.let_go();
}

TEST_F(StorageQueueTest, WorkThatComputesIsNotStuck) {
  for (unsigned i = 0; i < kLimits(WaitClass::kMade).permits; ++i) {
    start_stuck(nullptr, WaitClass::kMade);
  }
  submit(1, nullptr, WaitClass::kMade);
  find_stuck();
  EXPECT_EQ(offered, 0U);
  EXPECT_THAT(ran, testing::IsEmpty());
  for (Step& step : steps) step.let_go();
  join();
  EXPECT_THAT(ran, testing::ElementsAre(1));
}

TEST_F(StorageQueueTest, WorkThatReadsAStuckSourceIsHeldBackUntilItAnswers) {
  Step& stuck = start_stuck(a.get());
  find_stuck();
  submit(1, a.get());
  submit(2, b.get());
  EXPECT_THAT(ran, testing::ElementsAre(2));
  stuck.let_go();
  join();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
  submit(3, a.get());
  EXPECT_THAT(ran, testing::ElementsAre(2, 1, 3));
}

TEST_F(StorageQueueTest, AnyNumberOfReadsOfAStuckSourceTakesNoThreads) {
  Step& stuck = start_stuck(a.get());
  find_stuck();
  for (int i = 0; i < 1000; ++i) submit(i, a.get());
  EXPECT_THAT(ran, testing::IsEmpty());
  stuck.let_go();
  join();
  EXPECT_EQ(ran.size(), 1000U);
}

TEST_F(StorageQueueTest, WhileASourceIsStuckOthersAreReadByOneAtATime) {
  Step& stuck = start_stuck(a.get());
  Step& before = start_stuck(b.get());  // not known to be stuck yet
  queue.tick(now);
  before.let_go();
  threads.back().join();
  threads.pop_back();
  find_stuck();
  Step& first = start_stuck(b.get());
  submit(1, b.get());
  submit(2, nullptr);
  EXPECT_THAT(ran, testing::ElementsAre(2)) << "if b is stuck too it takes one thread";
  first.let_go();
  threads.back().join();
  threads.pop_back();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
  stuck.let_go();
  join();
  Step& again = start_stuck(b.get());
  submit(3, b.get());
  EXPECT_THAT(ran, testing::ElementsAre(2, 1, 3)) << "all is well again";
  again.let_go();
}

TEST_F(StorageQueueTest, OfSeveralSourcesOnlyTheStuckOneIsClosed) {
  Step& stuck = start_stuck(a.get());
  find_stuck();
  const auto c = std::make_shared<test::MemorySource>("c");
  Step both;
  threads.emplace_back([&] {
    queue.submit(
        nullptr, WaitClass::kRead,
        [&] {
          return Key{{.source = b.get()}, {.source = c.get()}};
        },
        [&] {
          now_using(b.get());
          both.begin();
          return done();
        });
  });
  both.wait_until_begun();
  submit(1, c.get());
  EXPECT_THAT(ran, testing::IsEmpty());
  find_stuck();
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(1));
  submit(2, b.get());
  EXPECT_THAT(ran, testing::ElementsAre(1));
  both.let_go();
  stuck.let_go();
  join();
  EXPECT_THAT(ran, testing::ElementsAre(1, 2));
}

TEST_F(StorageQueueTest, ASourceThatIsStuckInOnePlaceIsFoundByAProbe) {
  Step& stuck = start_stuck(a.get());
  find_stuck();
  submit(1, a.get());
  submit(2, a.get());
  queue.tick(now + ClosedSources::kProbeInterval - 1ms);
  EXPECT_EQ(offered, 0U);
  queue.tick(now + ClosedSources::kProbeInterval);
  EXPECT_EQ(offered, 1U) << "one tries it, the others wait for what it finds";
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(1, 2));
  EXPECT_FALSE(stuck.has_begun() && ran.empty());
  submit(3, a.get());
  EXPECT_THAT(ran, testing::ElementsAre(1, 2, 3)) << "what is stuck for ever closes it once";
  stuck.let_go();
}

TEST_F(StorageQueueTest, AProbeThatIsStuckTooIsTheOnlyOne) {
  Step& stuck = start_stuck(a.get());
  find_stuck();
  Step probe;
  queue.submit(
      nullptr, WaitClass::kRead, [this] { return key_of(a.get()); },
      [this, &probe] {
        now_using(a.get());
        probe.begin();
        return done();
      });
  submit(1, a.get());
  queue.tick(now += ClosedSources::kProbeInterval);
  threads.emplace_back([this] { queue.help(); });
  probe.wait_until_begun();
  offered = 0;
  for (int i = 0; i < 10; ++i) queue.tick(now += ClosedSources::kProbeInterval);
  EXPECT_EQ(offered, 0U);
  probe.let_go();
  stuck.let_go();
  join();
  EXPECT_THAT(ran, testing::ElementsAre(1));
}

TEST_F(StorageQueueTest, NoMoreThanTheirShareOfThreadsIsStuck) {
  const WaitLimits limits = kLimits(WaitClass::kAttribute);
  std::vector<std::shared_ptr<const ByteSource>> sources;
  for (unsigned i = 0; i < limits.permits + limits.stuck; ++i) {
    sources.push_back(std::make_shared<test::MemorySource>("s"));
    start_stuck(sources.back().get(), WaitClass::kAttribute);
    find_stuck();
  }
  submit(1, b.get(), WaitClass::kAttribute);
  find_stuck();
  EXPECT_THAT(ran, testing::IsEmpty());
  submit(2, b.get());
  EXPECT_THAT(ran, testing::ElementsAre(2)) << "other classes have theirs";
  for (Step& step : steps) step.let_go();
  join();
  EXPECT_THAT(ran, testing::ElementsAre(2, 1));
}

TEST_F(StorageQueueTest, OneThatGoesOnWithAnotherSourceLetsOthersRead) {
  Step first;
  Step second;
  threads.emplace_back([&] {
    queue.submit(
        nullptr, WaitClass::kRead, [this] { return key_of(a.get()); },
        [&] {
          now_using(a.get());
          first.begin();
          now_using(b.get());
          second.begin();
          return done();
        });
  });
  first.wait_until_begun();
  find_stuck();
  submit(1, a.get());
  EXPECT_THAT(ran, testing::IsEmpty());
  first.let_go();
  second.wait_until_begun();
  queue.tick(now);
  EXPECT_EQ(offered, 1U);
  queue.help();
  EXPECT_THAT(ran, testing::ElementsAre(1));
  second.let_go();
  join();
}

TEST_F(StorageQueueTest, OnePendingDirectoryIsOpenedByOneAtATime) {
  const auto key = [] { return Key{{.node = 7}}; };
  Step first;
  threads.emplace_back([&] {
    queue.submit(nullptr, WaitClass::kDirectory, key, [&first] {
      first.begin();
      return done();
    });
  });
  first.wait_until_begun();
  const auto add = [this](int number) {
    return [this, number] {
      ran.push_back(number);
      return done();
    };
  };
  for (int i = 0; i < 10; ++i) queue.submit(nullptr, WaitClass::kDirectory, key, add(i));
  EXPECT_THAT(ran, testing::IsEmpty());
  queue.submit(
      nullptr, WaitClass::kDirectory, [] { return Key{{.node = 8}}; }, add(100));
  EXPECT_THAT(ran, testing::ElementsAre(100)) << "others are not kept";
  first.let_go();
  join();
  EXPECT_EQ(ran.size(), 11U);
}

TEST_F(StorageQueueTest, AKeyThatCannotBeMadeHoldsNothingBack) {
  Step& stuck = start_stuck(a.get());
  find_stuck();
  queue.submit(
      nullptr, WaitClass::kRead, []() -> Key { throw std::bad_alloc(); },
      [this] {
        ran.push_back(1);
        return done();
      });
  EXPECT_THAT(ran, testing::ElementsAre(1));
  stuck.let_go();
}

}  // namespace
}  // namespace reshardfs
