// SPDX-License-Identifier: Apache-2.0
#include "transport/retry_schedule.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RetrySchedule, TakesARandomPartOfATimeThatDoubles) {
  milliseconds longest{0};
  milliseconds longest_of_first{0};
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    RetrySchedule schedule(seed);
    milliseconds bound = RetrySchedule::kFirst;
    for (int attempt = 0; attempt < 12; ++attempt) {
      const milliseconds wait = schedule.next();
      EXPECT_GE(wait, milliseconds(0));
      EXPECT_LE(wait, bound);
      if (attempt == 0) longest_of_first = std::max(longest_of_first, wait);
      longest = std::max(longest, wait);
      bound = std::min(bound * 2, RetrySchedule::kLongest);
    }
  }
  EXPECT_GT(longest_of_first, RetrySchedule::kFirst * 9 / 10);
  EXPECT_GT(longest, RetrySchedule::kLongest * 9 / 10);
}

TEST(RetrySchedule, NeverComesSoonerThanAsked) {
  RetrySchedule schedule(1);
  for (int attempt = 0; attempt < 100; ++attempt) {
    EXPECT_GE(schedule.next(seconds(7)), seconds(7));
  }
}

TEST(RetrySchedule, ReadsRetryAfter) {
  EXPECT_EQ(parse_retry_after("3", -1, 0), seconds(3));
  EXPECT_EQ(parse_retry_after("0", -1, 0), seconds(0));
  EXPECT_EQ(parse_retry_after("999999999", -1, 0), seconds(3600));
  EXPECT_EQ(parse_retry_after("a date", 110, 100), seconds(10));
  EXPECT_EQ(parse_retry_after("a date", 90, 100), seconds(0));
  EXPECT_EQ(parse_retry_after("soon", -1, 100), std::nullopt);
  EXPECT_EQ(parse_retry_after("-3", -1, 0), std::nullopt);
}

TEST(RetrySchedule, TellsWhatMayPass) {
  for (const long status : {408L, 429L, 500L, 502L, 503L, 504L}) {
    EXPECT_TRUE(is_worth_a_retry(status)) << status;
  }
  for (const long status : {200L, 206L, 301L, 400L, 401L, 403L, 404L, 412L, 416L, 501L}) {
    EXPECT_FALSE(is_worth_a_retry(status)) << status;
  }
}

}  // namespace
}  // namespace reshardfs
