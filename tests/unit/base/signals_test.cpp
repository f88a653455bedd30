// SPDX-License-Identifier: Apache-2.0
#include "base/process/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

std::atomic<int> outer_calls = 0;
std::atomic<int> inner_calls = 0;

void count_outer(int) {
  ++outer_calls;
}

void count_inner(int) {
  ++inner_calls;
}

void (*handler_now(int signal))(int) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

class SignalHandlersTest : public ::testing::Test {
 protected:
  SignalHandlersTest() { outer_calls = inner_calls = 0; }
};

TEST_F(SignalHandlersTest, AreThoseOfTheInnermostAndThenThoseBefore) {
  {
    SignalHandlers outer;
    outer.set(SIGUSR1, signal_action(count_outer, SA_RESTART));
    static_cast<void>(::raise(SIGUSR1));
    {
      SignalHandlers inner;
      inner.set(SIGUSR1, signal_action(count_inner, 0));
      inner.set(SIGUSR1, signal_action(SIG_IGN, 0));
      static_cast<void>(::raise(SIGUSR1));
      inner.set(SIGUSR1, signal_action(count_inner, 0));
      static_cast<void>(::raise(SIGUSR1));
    }
    static_cast<void>(::raise(SIGUSR1));
    EXPECT_EQ(outer_calls, 2);
    EXPECT_EQ(inner_calls, 1);
  }
  EXPECT_EQ(handler_now(SIGUSR1), SIG_DFL);
}

TEST_F(SignalHandlersTest, LeaveWhatIsIgnored) {
  SignalHandlers outer;
  outer.set(SIGUSR1, signal_action(SIG_IGN, 0));
  {
    SignalHandlers inner;
    inner.set_unless_ignored(SIGUSR1, signal_action(count_inner, 0));
    static_cast<void>(::raise(SIGUSR1));
  }
  EXPECT_EQ(inner_calls, 0);
  EXPECT_EQ(handler_now(SIGUSR1), SIG_IGN);
}

TEST_F(SignalHandlersTest, StopSignalsSetAFlagOnceAndGo) {
  SignalHandlers outer;
  outer.set(SIGTERM, signal_action(count_outer, 0));
  {
    const StopSignals stop;
    EXPECT_FALSE(stop.flag());
    static_cast<void>(::raise(SIGTERM));
    EXPECT_TRUE(stop.flag());
    EXPECT_EQ(stop.exit_code(), 128 + SIGTERM);
    EXPECT_EQ(handler_now(SIGTERM), SIG_DFL);  // the second one ends the process
  }
  EXPECT_EQ(handler_now(SIGTERM), count_outer);
  EXPECT_EQ(outer_calls, 0);
}

TEST_F(SignalHandlersTest, StopSignalsEndAProcessThatGoesOn) {
  const auto ends = [] {
    const StopSignals stop;
    static_cast<void>(::raise(SIGTERM));
    static_cast<void>(::raise(SIGALRM));
  };
  EXPECT_EXIT(ends(), ::testing::ExitedWithCode(128 + SIGTERM), "interrupted; the storage did not");
}

TEST_F(SignalHandlersTest, StopSignalsTakeTheAlarmWithThem) {
  {
    const StopSignals stop;
    static_cast<void>(::raise(SIGTERM));
    const unsigned left = ::alarm(60);
    EXPECT_GT(left, 0U);
  }
  EXPECT_EQ(::alarm(0), 0U);
}

TEST_F(SignalHandlersTest, NoSignalsLeavesOne) {
  SignalHandlers handlers;
  handlers.set(SIGUSR1, signal_action(count_outer, 0));
  handlers.set(SIGUSR2, signal_action(count_inner, 0));
  {
    const NoSignals none(SIGUSR2);
    static_cast<void>(::raise(SIGUSR1));
    static_cast<void>(::raise(SIGUSR2));
    EXPECT_EQ(outer_calls, 0);
    EXPECT_EQ(inner_calls, 1);
  }
  EXPECT_EQ(outer_calls, 1);
}

}  // namespace
}  // namespace reshardfs
