// SPDX-License-Identifier: Apache-2.0
#include "fuse/request_scheduler.h"

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

struct Request {
  const void* request = nullptr;
  InodeNumber inode = 0;
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

Request numbered(std::uint64_t number) {
  return Request{.inode = number};
}

TEST(RequestScheduler, RunsOnTheCallersThreadWhileAPermitIsFree) {
  std::thread::id ran_on;
  RequestScheduler<Request> scheduler(1,
                                      [&](const Request&) { ran_on = std::this_thread::get_id(); });
  scheduler.submit(numbered(1));
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  ran_on = {};
  scheduler.submit(numbered(2));  // the permit came back
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(RequestScheduler, PassesTheRequestOnUnchanged) {
  Request seen;
  RequestScheduler<Request> scheduler(1, [&](const Request& request) { seen = request; });
  const void* const request = &seen;
  scheduler.submit({.request = request, .inode = 5, .offset = 1ULL << 40, .size = 4096});
  EXPECT_EQ(seen.request, request);
  EXPECT_EQ(seen.inode, 5U);
  EXPECT_EQ(seen.offset, 1ULL << 40);
  EXPECT_EQ(seen.size, 4096U);
}

TEST(RequestScheduler, SubmitReturnsAtOnceWhileAllPermitsAreBlocked) {
  constexpr unsigned kPermits = 4;
  constexpr std::uint64_t kQueued = 100;
  std::latch all_blocked(kPermits);
  std::latch release(1);
  std::mutex mutex;
  std::map<std::uint64_t, int> runs;
  std::atomic<unsigned> at_once = 0;
  std::atomic<unsigned> most_at_once = 0;

  RequestScheduler<Request> scheduler(kPermits, [&](const Request& request) {
    const unsigned now = ++at_once;
    unsigned most = most_at_once;
    while (most < now && !most_at_once.compare_exchange_weak(most, now)) {
    }
    if (request.inode < kPermits) {
      all_blocked.count_down();
      release.wait();
    }
    {
      const std::lock_guard lock(mutex);
      ++runs[request.inode];
    }
    --at_once;
  });

  std::vector<std::thread> blocked;
  for (unsigned i = 0; i < kPermits; ++i) {
    blocked.emplace_back([&scheduler, i] { scheduler.submit(numbered(i)); });
  }
  all_blocked.wait();
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < kQueued; ++i) scheduler.submit(numbered(kPermits + i));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(runs.empty());
  }
  release.count_down();
  for (std::thread& thread : blocked) thread.join();

  EXPECT_EQ(runs.size(), kPermits + kQueued);
  for (const auto& [number, count] : runs) EXPECT_EQ(count, 1) << number;
  EXPECT_EQ(most_at_once, kPermits);
}

TEST(RequestScheduler, QueuedReadsRunInTheOrderTheyCame) {
  std::binary_semaphore started(0);
  std::binary_semaphore release(0);
  std::vector<std::uint64_t> order;
  RequestScheduler<Request> scheduler(1, [&](const Request& request) {
    if (request.inode == 0) {
      started.release();
      release.acquire();
    }
    order.push_back(request.inode);
  });
  std::thread blocked([&] { scheduler.submit(numbered(0)); });
  started.acquire();
  for (std::uint64_t i = 1; i < 6; ++i) scheduler.submit(numbered(i));
  release.release();
  blocked.join();
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(RequestScheduler, RunsEveryReadOnceUnderContention) {
  constexpr unsigned kThreads = 8;
  constexpr std::uint64_t kEach = 5000;
  std::vector<std::atomic<int>> runs(kThreads * kEach);
  RequestScheduler<Request> scheduler(3, [&](const Request& request) { ++runs[request.inode]; });
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&scheduler, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) scheduler.submit(numbered(t * kEach + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& count : runs) ASSERT_EQ(count, 1);
}

TEST(RequestScheduler, OneFileHoldsAtMostHalfOfThePermits) {
  constexpr unsigned kPermits = 6;
  std::counting_semaphore<> entered(0);
  std::latch release(1);
  std::atomic<int> stalled = 0;
  std::atomic<int> others = 0;
  RequestScheduler<Request> scheduler(kPermits, [&](const Request& request) {
    if (request.inode != 1) {
      ++others;
      return;
    }
    ++stalled;
    entered.release();
    release.wait();
  });
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kPermits / 2; ++i) {
    threads.emplace_back([&] { scheduler.submit(numbered(1)); });
    entered.acquire();
  }
  for (int i = 0; i < 20; ++i) scheduler.submit(numbered(1));  // returns at once
  EXPECT_EQ(stalled, kPermits / 2);
  for (std::uint64_t i = 0; i < 100; ++i) scheduler.submit(numbered(2 + i % 7));
  EXPECT_EQ(others, 100);
  release.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stalled, kPermits / 2 + 20);
}

TEST(RequestScheduler, RunsEveryReadOfFewFilesOnceUnderContention) {
  constexpr unsigned kThreads = 8;
  constexpr std::uint64_t kEach = 5000;
  std::vector<std::atomic<int>> runs(kThreads * kEach);
  std::array<std::atomic<int>, 3> at_once{};
  std::atomic<bool> too_many = false;
  RequestScheduler<Request> scheduler(4, [&](const Request& request) {
    if (++at_once[request.inode] > 2) too_many = true;
    ++runs[request.offset];
    --at_once[request.inode];
  });
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&scheduler, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        scheduler.submit({.inode = i % 3, .offset = t * kEach + i});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& count : runs) ASSERT_EQ(count, 1);
  EXPECT_FALSE(too_many);
}

}  // namespace
}  // namespace reshardfs
