// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/closed_sources.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fuse/queue/wait_permits.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Awaited kOne{.node = 1};
constexpr Awaited kTwo{.node = 2};

class ClosedSourcesTest : public ::testing::Test {
 protected:
  /// The nodes that are tried at that time.
  std::vector<InodeNumber> probes_at(ClosedSources::Clock::time_point now, bool sent = true) {
    std::vector<InodeNumber> nodes;
    closed.send_probes(now, [&](const Awaited& awaited) {
      nodes.push_back(awaited.node);
      return sent;
    });
    return nodes;
  }

  ClosedSources closed;
  const ClosedSources::Clock::time_point start{1h};
};

TEST_F(ClosedSourcesTest, HoldWorkBackUntilTheyAreOpenAgain) {
  EXPECT_FALSE(closed.any());
  EXPECT_TRUE(closed.close(kOne));
  EXPECT_FALSE(closed.close(kOne));  // somebody has it already
  EXPECT_TRUE(closed.any());
  EXPECT_FALSE(closed.is_any_stuck());
  EXPECT_TRUE(closed.holds_back({kTwo, kOne}));
  EXPECT_FALSE(closed.holds_back({kTwo}));
  EXPECT_FALSE(closed.holds_back({}));
  closed.reopen(kTwo);  // was open
  closed.reopen(kOne);
  EXPECT_FALSE(closed.any());
  EXPECT_FALSE(closed.holds_back({kOne}));
}

TEST_F(ClosedSourcesTest, AreTheOnlyObstacle) {
  closed.close(kOne);
  EXPECT_TRUE(closed.is_only_obstacle(kOne, {kOne, kTwo}));
  EXPECT_FALSE(closed.is_only_obstacle(kOne, {kTwo}));
  closed.close(kTwo);
  EXPECT_FALSE(closed.is_only_obstacle(kOne, {kOne, kTwo}));
  EXPECT_TRUE(closed.is_only_obstacle(kOne, {kOne}));
}

TEST_F(ClosedSourcesTest, AreTriedOnceAtATimeIfTheyAreStuck) {
  closed.close(kTwo);
  closed.close_stuck(kOne, start);
  EXPECT_TRUE(closed.is_any_stuck());
  const auto due = start + ClosedSources::kProbeInterval;
  EXPECT_THAT(probes_at(due - 1ms), IsEmpty());
  EXPECT_THAT(probes_at(due, /*sent=*/false), ElementsAre(1));  // nobody can try it
  EXPECT_THAT(probes_at(due), ElementsAre(1));
  EXPECT_THAT(probes_at(due), IsEmpty());  // somebody does
  closed.probe_again(kOne);
  EXPECT_THAT(probes_at(due), ElementsAre(1));
  closed.reopen(kOne);
  closed.probe_again(kOne);
  EXPECT_FALSE(closed.is_any_stuck());
  EXPECT_TRUE(closed.any());
}

TEST_F(ClosedSourcesTest, AreStuckSinceTheyWereFoundToBe) {
  closed.close(kOne);
  closed.close_stuck(kOne, start);
  closed.close_stuck(kOne, start + 10s);
  EXPECT_THAT(probes_at(start + ClosedSources::kProbeInterval), ElementsAre(1));
  closed.reopen(kOne);
  EXPECT_FALSE(closed.is_any_stuck());
  EXPECT_FALSE(closed.any());
}

TEST(WaitPermits, AreLentAsOftenAsTheClassAllows) {
  WaitPermits permits;
  const WaitLimits limits = limits_of(WaitClass::kAttribute);
  for (unsigned i = 0; i < limits.permits; ++i) EXPECT_TRUE(permits.take(WaitClass::kAttribute));
  EXPECT_FALSE(permits.take(WaitClass::kAttribute));
  EXPECT_TRUE(permits.take(WaitClass::kRead));
  for (unsigned i = 0; i < limits.stuck; ++i) {
    EXPECT_TRUE(permits.lend(WaitClass::kAttribute));
    EXPECT_TRUE(permits.take(WaitClass::kAttribute));
  }
  EXPECT_FALSE(permits.lend(WaitClass::kAttribute));
  permits.end_lending(WaitClass::kAttribute);
  EXPECT_TRUE(permits.lend(WaitClass::kAttribute));
  EXPECT_EQ(permits.free(WaitClass::kAttribute), 1U);
  EXPECT_FALSE(permits.lend(WaitClass::kLook));  // nothing of it can be stuck
}

}  // namespace
}  // namespace reshardfs
