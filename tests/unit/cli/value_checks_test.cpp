// SPDX-License-Identifier: Apache-2.0
#include "cli/options/value_checks.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using std::chrono::seconds;

TEST(Duration, TakesUnitsOnceAndTheLargestFirst) {
  EXPECT_EQ(duration_of("90s"), seconds(90));
  EXPECT_EQ(duration_of("10m"), seconds(600));
  EXPECT_EQ(duration_of("1h30m"), seconds(5400));
  EXPECT_EQ(duration_of("2d1h1m1s"), seconds(2 * 86400 + 3661));
  EXPECT_EQ(duration_of("0s"), seconds(0));
}

TEST(Duration, RefusesAllElse) {
  for (const char* text : {"", "10", "m", "-5s", "5 m", "1m1h", "1m1m", "1.5h", "10ms", "5S", " 5s",
                           "99999999999999999999s", "400d", "1h junk"}) {
    EXPECT_FALSE(duration_of(text)) << text;
    EXPECT_NE(check_duration(text), "") << text;
  }
  EXPECT_EQ(check_duration("10m"), "");
}

}  // namespace
}  // namespace reshardfs
