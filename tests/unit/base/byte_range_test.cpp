// SPDX-License-Identifier: Apache-2.0
#include "base/byte_range.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(ByteRange, HasAnEndThatCanBeTold) {
  const ByteRange range(10, 5);
  EXPECT_EQ(range.offset(), 10U);
  EXPECT_EQ(range.length(), 5U);
  EXPECT_EQ(range.end(), 15U);
  EXPECT_EQ(ByteRange(kMost, 0).end(), kMost);
  EXPECT_EQ(ByteRange(1, kMost - 1).end(), kMost);
  test::expect_error(ErrorKind::kBadInput, {"64-bit"}, [] { ByteRange(kMost, 1); });
  test::expect_error(ErrorKind::kBadInput, {"64-bit"}, [] { ByteRange(2, kMost - 1); });
}

TEST(ByteRange, EndsNotBeforeItBegins) {
  EXPECT_EQ(ByteRange::between(3, 9), ByteRange(3, 6));
  EXPECT_TRUE(ByteRange::between(3, 3).empty());
  test::expect_error(ErrorKind::kBadInput, {"from 4", "at 3"}, [] { ByteRange::between(4, 3); });
}

TEST(ByteRange, ContainsWhatDoesNotLeaveIt) {
  const ByteRange range(10, 5);
  EXPECT_TRUE(range.contains(range));
  EXPECT_TRUE(range.contains({12, 3}));
  EXPECT_TRUE(range.contains({15, 0}));
  EXPECT_FALSE(range.contains({9, 2}));
  EXPECT_FALSE(range.contains({14, 2}));
  EXPECT_FALSE(range.contains({16, 0}));
}

TEST(ByteRange, IsTakenApartWithoutLeavingIt) {
  const ByteRange range(10, 5);
  EXPECT_EQ(range.first(2), ByteRange(10, 2));
  EXPECT_EQ(range.behind_first(2), ByteRange(12, 3));
  EXPECT_EQ(range.first(9), range);
  EXPECT_EQ(range.behind_first(9), ByteRange(15, 0));
  const ByteRange last(kMost - 1, 1);
  EXPECT_EQ(last.first(kMost), last);
  EXPECT_TRUE(last.behind_first(kMost).empty());
}

}  // namespace
}  // namespace reshardfs
