// SPDX-License-Identifier: Apache-2.0
#include "fuse/wake_pipe.h"

#include <chrono>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

TEST(WakePipe, GivesEventsInTheirOrder) {
  const WakePipe pipe;
  pipe.post(Event::kLive);
  pipe.post(Event::kEnded);
  EXPECT_EQ(pipe.wait(), Event::kLive);
  EXPECT_EQ(pipe.wait_for(1h), Event::kEnded);
  EXPECT_EQ(pipe.wait_for(0ms), std::nullopt);
}

TEST(WakePipe, TakesMoreThanItHolds) {
  const WakePipe pipe;
  constexpr int kMore = 1 << 18;  // the pipe has 64 KiB
  for (int i = 0; i < kMore; ++i) pipe.post(Event::kStall);
  int got = 0;
  while (pipe.wait_for(0ms)) ++got;
  EXPECT_GT(got, 0);
  EXPECT_LT(got, kMore);
}

}  // namespace
}  // namespace reshardfs
