// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/shape.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/checked.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Shape, CountsElements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({0}), 0);
  EXPECT_EQ(element_count({4, 16}), 64);
  EXPECT_EQ(element_count({kMax, 1}), kMax);
}

TEST(Shape, RefusesWhatDoesNotFit64Bits) {
  test::expect_error(ErrorKind::kBadInput, {"-1", "negative"}, [] { element_count({2, -1}); });
  test::expect_error(ErrorKind::kBadInput, {"elements"}, [] { element_count({kMax, 2}); });
  test::expect_error(ErrorKind::kBadInput, {"elements"}, [] { element_count({kMax, 0, 2}); });
}

TEST(Shape, IsShownAsAList) {
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{4, 16}), "[4, 16]");
}

TEST(Checked, SeesEveryOverflow) {
  EXPECT_EQ(checked_add<std::uint64_t>(1, 2), 3U);
  EXPECT_EQ(checked_add<std::uint64_t>(~0ULL, 1), std::nullopt);
  EXPECT_EQ(checked_mul<std::int64_t>(kMax, -1), -kMax);
  EXPECT_EQ(checked_mul<std::int64_t>(kMax, 2), std::nullopt);
  test::expect_error(ErrorKind::kBadInput, {"the offset exceeds"},
                     [] { add_or_throw<std::int64_t>(kMax, 1, "the offset"); });
}

}  // namespace
}  // namespace reshardfs
