// SPDX-License-Identifier: Apache-2.0
#include "base/posix/poll_until.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "base/posix/descriptor.h"

namespace reshardfs::poll_until_tests {
namespace {

using std::chrono::milliseconds;

TEST(PollUntil, TellsWhatIsReady) {
  const Pipe first;
  const Pipe second;
  EXPECT_FALSE(wait_readable(first.reader.get(), deadline_after(milliseconds(0))));
  EXPECT_FALSE(wait_readable(first.reader.get(), PollClock::time_point()));
  ASSERT_EQ(::write(second.writer.get(), "x", 1), 1);
  std::array<pollfd, 2> polls{{{first.reader.get(), POLLIN, 0}, {second.reader.get(), POLLIN, 0}}};
  EXPECT_TRUE(poll_until(polls, kForever));
  EXPECT_EQ(polls[0].revents, 0);
  EXPECT_NE(polls[1].revents, 0);
  EXPECT_TRUE(wait_readable(second.reader.get(), PollClock::time_point()));
}

TEST(PollUntil, WhatIsClosedIsReady) {
  Pipe pipe;
  pipe.writer = Descriptor();
  EXPECT_TRUE(wait_readable(pipe.reader.get(), kForever));
}

TEST(PollUntil, NegativeAndHugeLimitsNeverEnd) {
  EXPECT_EQ(deadline_after(milliseconds(-1)), kForever);
  EXPECT_EQ(deadline_after(milliseconds::max()), kForever);
  EXPECT_LT(deadline_after(milliseconds(5)), kForever);
}

std::atomic<int> signals = 0;

TEST(PollUntil, GoesOnAfterASignal) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { ++signals; };
  ::sigaction(SIGUSR1, &action, &before);
  const Pipe pipe;
  std::atomic<bool> ready = false;
  std::thread waiter([&] { ready = wait_readable(pipe.reader.get(), kForever); });
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(::pthread_kill(waiter.native_handle(), SIGUSR1), 0);
    while (signals < i) std::this_thread::yield();
  }
  EXPECT_FALSE(ready);
  ASSERT_EQ(::write(pipe.writer.get(), "x", 1), 1);
  waiter.join();
  EXPECT_TRUE(ready);
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace reshardfs::poll_until_tests
