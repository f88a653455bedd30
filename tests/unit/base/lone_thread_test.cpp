// SPDX-License-Identifier: Apache-2.0
#include "base/process/lone_thread.h"

#include <pthread.h>

#include <csignal>
#include <memory>
#include <semaphore>
#include <system_error>

#include <gtest/gtest.h>

#include "support/no_threads.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

TEST(LoneThread, WithoutATaskHasEnded) {
  LoneThread thread;
  EXPECT_TRUE(thread.ends_within(0ms));
}

TEST(LoneThread, IsWaitedForNoLongerThanTheLimit) {
  std::binary_semaphore release(0);
  LoneThread thread;
  thread.start([&] { release.acquire(); });
  EXPECT_FALSE(thread.ends_within(0ms));
  EXPECT_FALSE(thread.ends_within(1ms));
  release.release();
  EXPECT_TRUE(thread.ends_within(1h));
  EXPECT_TRUE(thread.ends_within(0ms));
}

TEST(LoneThread, CanBeStartedAgain) {
  LoneThread thread;
  int runs = 0;
  for (int i = 0; i < 3; ++i) {
    thread.start([&] { ++runs; });
    EXPECT_TRUE(thread.ends_within(1h));
  }
  EXPECT_EQ(runs, 3);
}

TEST(LoneThread, IsLeftAloneWithWhatItUses) {
  static std::binary_semaphore gone(0);  // the thread may be the last to use it
  std::weak_ptr<std::binary_semaphore> release;
  {
    const std::shared_ptr<std::binary_semaphore> used(new std::binary_semaphore(0),
                                                      [](std::binary_semaphore* own) {
                                                        delete own;
                                                        gone.release();
                                                      });
    release = used;
    LoneThread thread;
    thread.start([used] { used->acquire(); });
  }
  ASSERT_FALSE(release.expired());
  release.lock()->release();
  gone.acquire();
}

TEST(LoneThread, GetsNoSignals) {
  sigset_t mask{};
  LoneThread thread;
  thread.start([&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &mask); });
  ASSERT_TRUE(thread.ends_within(1h));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXFSZ, SIGCHLD}) {
    EXPECT_EQ(::sigismember(&mask, signal), 1) << signal;
  }
  EXPECT_EQ(::sigismember(&mask, SIGBUS), 0);
}

TEST(LoneThread, SaysThatItCannotBeStarted) {
  LoneThread thread;
  {
    const NoThreads none;
    EXPECT_THROW(thread.start([] {}), std::system_error);
  }
  EXPECT_TRUE(thread.ends_within(0ms));
  thread.start([] {});
  EXPECT_TRUE(thread.ends_within(1h));
}

}  // namespace
}  // namespace reshardfs
