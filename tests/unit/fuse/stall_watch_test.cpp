// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/stall_watch.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

constexpr StallWatch::Clock::time_point kStart{1h};

/// A request of this inode that came at the start.
StallWatch::Found waits(fuse_ino_t inode, StallWatch::Clock::duration waited) {
  const Asked asked{.inode = inode, .operation = "read", .asker = {.since = kStart}};
  return {.longest = StallWatch::Stall{.asked = asked, .waited = waited}, .any = true};
}

TEST(StallWatchTest, TellsTheBeginningAndTheEndOnce) {
  StallWatch watch;
  EXPECT_FALSE(watch.look({}, kStart));
  EXPECT_FALSE(watch.look(waits(7, 9s), kStart + 9s));
  EXPECT_TRUE(watch.look(waits(7, 10s), kStart + 10s));
  EXPECT_FALSE(watch.look(waits(7, 20s), kStart + 20s));
  auto told = watch.take();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->asked.inode, 7U);
  EXPECT_EQ(told->waited, 10s);
  EXPECT_FALSE(told->over);
  EXPECT_FALSE(watch.take());
  EXPECT_TRUE(watch.look({}, kStart + 42s));
  told = watch.take();
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->over);
  EXPECT_EQ(told->waited, 42s);
  EXPECT_FALSE(watch.take());
}

TEST(StallWatchTest, WhatIsNotTakenIsToldInOrder) {
  StallWatch watch;
  EXPECT_TRUE(watch.look(waits(7, 10s), kStart + 10s));
  EXPECT_TRUE(watch.look({}, kStart + 11s));
  EXPECT_FALSE(watch.take()->over);
  EXPECT_TRUE(watch.take()->over);
  EXPECT_FALSE(watch.take());
}

TEST(StallWatchTest, AStallLastsWhileAKilledProgramsWorkIsStuck) {
  StallWatch watch;
  EXPECT_FALSE(watch.look({.longest = {}, .any = true}, kStart + 10s)) << "nobody waits";
  EXPECT_TRUE(watch.look(waits(7, 10s), kStart + 10s));
  EXPECT_FALSE(watch.look({.longest = {}, .any = true}, kStart + 20s));
  EXPECT_TRUE(watch.look({}, kStart + 30s));
}

TEST(StallWatchTest, OneThatFollowsSoonIsNotTold) {
  StallWatch watch;
  EXPECT_TRUE(watch.look(waits(7, 10s), kStart + 10s));
  EXPECT_TRUE(watch.look({}, kStart + 11s));
  while (watch.take()) continue;
  EXPECT_FALSE(watch.look(waits(8, 10s), kStart + 69s));
  EXPECT_FALSE(watch.look({}, kStart + 80s)) << "its end was told, but not its beginning";
  EXPECT_FALSE(watch.take());
  EXPECT_TRUE(watch.look(waits(9, 10s), kStart + 90s));
}

TEST(StallWatchTest, OneThatFollowsSoonAndLastsIsToldLater) {
  StallWatch watch;
  EXPECT_TRUE(watch.look(waits(7, 10s), kStart + 10s));
  EXPECT_TRUE(watch.look({}, kStart + 11s));
  while (watch.take()) continue;
  EXPECT_FALSE(watch.look(waits(8, 12s), kStart + 30s));
  EXPECT_FALSE(watch.look(waits(8, 51s), kStart + 69s));
  EXPECT_TRUE(watch.look(waits(8, 52s), kStart + 70s));
  EXPECT_EQ(watch.take()->waited, 52s);
  EXPECT_TRUE(watch.look({}, kStart + 80s));
  EXPECT_TRUE(watch.take()->over);
}

}  // namespace
}  // namespace reshardfs
