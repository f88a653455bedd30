// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include <gtest/gtest.h>

#include "fuse/reply.h"

namespace reshardfs {
namespace {

constexpr std::size_t kInterrupted = 5;
static_assert(kReadErrorNames[kInterrupted] == "EINTR");

TEST(ReadTally, CountsAReadOnceHoweverItEnds) {
  const CounterValues before = counters().values();
  {
    ReadTally delivered(kOtherView);
    delivered.delivers(10);
    delivered.delivers(10);
    delivered.failed(EINTR);
    ReadTally failed(kOtherView);
    failed.failed(EINTR);
    failed.failed(EINTR);
    failed.delivers(10);
    EXPECT_EQ(counters().values().reads_in_flight, before.reads_in_flight);
    EXPECT_EQ(counters().values().read_errors[kInterrupted], before.read_errors[kInterrupted] + 1);
    EXPECT_EQ(counters().values().bytes_delivered(), before.bytes_delivered() + 10);
    ReadTally given_up(kOtherView);
    const ReadTally moved(std::move(given_up));
    EXPECT_EQ(counters().values().reads_in_flight, before.reads_in_flight + 1);
  }
  const CounterValues after = counters().values();
  EXPECT_EQ(after.reads_in_flight, before.reads_in_flight);
  EXPECT_EQ(after.reads.count(), before.reads.count() + 3);
  EXPECT_EQ(after.read_errors[kInterrupted], before.read_errors[kInterrupted] + 2) << "given up";
  EXPECT_EQ(after.bytes_delivered(), before.bytes_delivered() + 10);
}

}  // namespace
}  // namespace reshardfs
