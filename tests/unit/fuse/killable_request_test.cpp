// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/killable_request.h"

#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(KillableRequest, FindsAKillAmongThePendingSignals) {
  EXPECT_FALSE(tells_of_kill(""));
  EXPECT_FALSE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"));
  EXPECT_TRUE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
  EXPECT_TRUE(tells_of_kill("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004100\n"));
  EXPECT_FALSE(tells_of_kill("Name:\tx\nSigPnd:\tfffffffffffffeff\nShdPnd:\t0000000000000000\n"));
  // Blocked and caught signals are others; and a program may call itself anything but a new line.
  EXPECT_FALSE(tells_of_kill("Name:\tSigPnd:\t100\nSigBlk:\t0000000000000100\n"));
}

TEST(KillableRequest, FindsAThreadOnItsWayOut) {
  EXPECT_FALSE(tells_of_exit(""));
  EXPECT_FALSE(tells_of_exit("12 (x) S 1 1 1 0 -1 4194304 100"));
  EXPECT_TRUE(tells_of_exit("12 (x) D 1 1 1 0 -1 4194308 100"));
  EXPECT_TRUE(tells_of_exit("12 (a) 1 2 3 (b) Z 1 1 1 0 -1 4 100")) << "a name may hold anything";
  EXPECT_FALSE(tells_of_exit("12 (x) S 1 1"));
}

TEST(KillableRequest, AThreadThatLivesOrIsUnknownIsNotKilled) {
  EXPECT_FALSE(is_killed(::getpid()));
  EXPECT_FALSE(is_killed(0));
  EXPECT_FALSE(is_killed(-1));
  EXPECT_FALSE(is_killed(1 << 30));
}

TEST(KillableRequest, PendingSignalsOfAThreadAreFound) {
  // SIGKILL does not stay pending in a thread that runs; any other signal shows the way.
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  ::raise(SIGUSR1);
  EXPECT_FALSE(is_killed(::gettid()));
  const timespec no_time{};
  EXPECT_EQ(::sigtimedwait(&blocked, nullptr, &no_time), SIGUSR1);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
}

}  // namespace
}  // namespace reshardfs
