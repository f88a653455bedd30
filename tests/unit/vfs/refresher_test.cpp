// SPDX-License-Identifier: Apache-2.0
#include "vfs/refresher.h"

#include <atomic>
#include <semaphore>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using Clock = Refresher::Clock;

/// Time that passes only when a test says so.
class FakeClock {
 public:
  Clock::time_point operator()() const { return Clock::time_point(ms_.load() * 1ms); }
  void advance(std::chrono::milliseconds time) { ms_ += time.count(); }

 private:
  std::atomic<std::int64_t> ms_ = 1'000'000;
};

class RefresherTest : public testing::Test {
 protected:
  static constexpr Refresher::Limits kLimits{1000ms, 200ms, 1h};

  void start(std::function<bool()> refresh, Refresher::Limits limits = kLimits) {
    refresher = std::make_unique<Refresher>(std::move(refresh), limits, [this] { return clock(); });
    refresher->start();
  }
  void count(Refresher::Limits limits = kLimits) {
    start(
        [this] {
          ++looks;
          return false;
        },
        limits);
  }
  bool looked(int times) {
    const auto deadline = Clock::now() + 10s;
    while (looks < times && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
    return looks == times;
  }
  void TearDown() override {
    if (refresher) {
      EXPECT_TRUE(refresher->stop(10s));
    }
  }

  FakeClock clock;
  std::atomic<int> looks = 0;
  std::unique_ptr<Refresher> refresher;
};

TEST_F(RefresherTest, LooksAtMostOncePerTime) {
  count();
  refresher->request_and_wait();
  EXPECT_EQ(looks, 0) << "the source has just been opened";
  clock.advance(999ms);
  refresher->request_and_wait();
  EXPECT_EQ(looks, 0);
  clock.advance(1ms);
  for (int i = 0; i < 10; ++i) refresher->request_and_wait();
  EXPECT_EQ(looks, 1);
  clock.advance(999ms);
  refresher->request_and_wait();
  EXPECT_EQ(looks, 1);
  clock.advance(1ms);
  refresher->request();
  EXPECT_TRUE(looked(2));
}

TEST_F(RefresherTest, NobodyWaitsLongForASlowSource) {
  std::binary_semaphore release(0);
  start([&] {
    release.acquire();
    ++looks;
    return false;
  });
  clock.advance(1000ms);
  // If each waited as the first that may, they would take more than a minute.
  constexpr int kMany = 400;
  const auto begin = Clock::now();
  for (int i = 0; i < kMany; ++i) refresher->request();
  refresher->request_and_wait();
  EXPECT_GE(Clock::now() - begin, 200ms);
  for (int i = 0; i < kMany; ++i) refresher->request_and_wait();
  EXPECT_LT(Clock::now() - begin, 60s) << "the look began long ago";
  EXPECT_EQ(looks, 0);
  EXPECT_FALSE(refresher->stop(10ms)) << "it still waits for the source";
  release.release();
  EXPECT_TRUE(refresher->stop(10s));
  EXPECT_EQ(looks, 1);
}

TEST_F(RefresherTest, LooksByItselfNowAndThen) {
  count({1000ms, 200ms, 20ms});
  const auto deadline = Clock::now() + 10s;
  while (looks < 3 && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_GE(looks, 3);
}

TEST_F(RefresherTest, LooksAtOnceWhileThereIsMore) {
  start([this] { return ++looks < 5; });
  clock.advance(1000ms);
  refresher->request();
  EXPECT_TRUE(looked(5));
  clock.advance(999ms);
  refresher->request_and_wait();
  EXPECT_EQ(looks, 5);
}

TEST_F(RefresherTest, WithoutAThreadRequestsDoNothing) {
  const auto look = [this] {
    ++looks;
    return false;
  };
  Refresher idle(look, kLimits, [this] { return clock(); });
  clock.advance(5000ms);
  idle.request();
  idle.request_and_wait();
  EXPECT_EQ(looks, 0);
  EXPECT_TRUE(idle.stop(0ms));
}

TEST_F(RefresherTest, StopsWhileOthersAsk) {
  count();
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        clock.advance(300ms);
        refresher->request_and_wait();
      }
    });
  }
  while (looks < 20) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(refresher->stop(10s));
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace reshardfs
