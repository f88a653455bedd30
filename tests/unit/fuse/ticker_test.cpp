// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/ticker.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

/// What a ticker looks after: something that one tick is enough for.
class Pending {
 public:
  bool tick() {
    const std::lock_guard lock(mutex_);
    ++ticks_;
    const bool was_pending = pending_;
    pending_ = false;
    changed_.notify_all();
    return was_pending;
  }
  void set() {
    const std::lock_guard lock(mutex_);
    pending_ = true;
  }
  bool wait_until_seen() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [this] { return !pending_; });
  }
  int ticks() const {
    const std::lock_guard lock(mutex_);
    return ticks_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool pending_ = false;
  int ticks_ = 0;
};

TEST(Ticker, SeesEveryWishWheneverItComes) {
  Pending pending;
  Ticker ticker([&](Ticker::Clock::time_point) { return pending.tick(); });
  for (int i = 0; i < 20; ++i) {
    pending.set();
    ticker.want();
    ASSERT_TRUE(pending.wait_until_seen()) << i;
  }
}

TEST(Ticker, SleepsAndIsWoken) {
  Pending pending;
  Ticker ticker([&](Ticker::Clock::time_point) { return pending.tick(); });
  for (int round = 0; round < 2; ++round) {
    pending.set();
    ticker.want();
    ASSERT_TRUE(pending.wait_until_seen());
    // It sleeps when a count of ticks has found nothing.
    int before = -1;
    while (std::exchange(before, pending.ticks()) != pending.ticks()) {
      std::this_thread::sleep_for(20 * Ticker::kInterval);
    }
  }
}

TEST(Ticker, EndsWithTheTickThatIsUnderWay) {
  std::atomic<bool> begun = false;
  std::atomic<bool> ended = false;
  Ticker ticker([&](Ticker::Clock::time_point) {
    begun = true;
    begun.notify_all();
    std::this_thread::sleep_for(20ms);
    ended = true;
    return true;
  });
  ticker.want();
  begun.wait(false);
  ticker.stop();
  EXPECT_TRUE(ended);
  ticker.want();  // too late, and harmless
  ticker.stop();
}

TEST(Ticker, HasNoThreadBeforeItIsWanted) {
  Ticker ticker([](Ticker::Clock::time_point) { return true; });
  ticker.stop();
}

}  // namespace
}  // namespace reshardfs
