// SPDX-License-Identifier: Apache-2.0
/// A queue whose ticks come when the test says so.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fuse/queue/storage_queue.h"
#include "storage/local/file_system_speed.h"

namespace reshardfs::test {

using namespace std::chrono_literals;

inline constexpr auto kLimits = [](WaitClass kind) {
  return kWaitLimits[static_cast<std::size_t>(kind)];
};

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
  /// Work without a permit, which begins on whichever thread takes it.
  Step& queued(WaitClass kind = WaitClass::kRead) {
    Step& step = steps.emplace_back();
    queue.submit(nullptr, kind, 0, [&step] {
      step.begin();
      return done();
    });
    return step;
  }
  /// On a thread of its own: a request that came at `since` and is not answered before it is let
  /// go.
  Step& ask(fuse_ino_t inode, WaitClass kind, StorageQueue::Clock::time_point since) {
    Step& step = steps.emplace_back();
    const Asked asked{.inode = inode, .operation = "read", .asker = {.since = since}};
    threads.emplace_back([this, kind, asked, &step] {
      const auto lives = [](pid_t) noexcept { return false; };
      queue.submit(std::make_shared<KillableRequest>(lives, asked), kind, 0, [&step] {
        step.begin();
        return done();
      });
    });
    step.wait_until_begun();
    return step;
  }
  /// Lets one of the steps go, and waits for the end of the thread that began last.
  void end_last() {
    steps.back().let_go();
    threads.back().join();
    threads.pop_back();
    steps.pop_back();
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

}  // namespace reshardfs::test
