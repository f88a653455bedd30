// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/rank.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/json/json_writer.h"
#include "base/rank_format.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace reshardfs::rank_tests {
namespace {

using test::expect_error;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

static_assert(sizeof(Rank) == sizeof(std::int64_t) && std::is_trivially_copyable_v<Rank>);
static_assert(!std::is_convertible_v<std::int64_t, Rank> && !std::is_convertible_v<int, Rank>);
static_assert(!std::is_convertible_v<Rank, std::int64_t>);
static_assert(std::forward_iterator<RankRange::Iterator>);
static_assert(Rank(3) + 4 == Rank(7) && Rank(3) < Rank(4));
static_assert(RankRange(Rank(2), 3).size() == 3);

TEST(Rank, CountsFrom0) {
  EXPECT_EQ(Rank(), Rank(0));
  EXPECT_EQ(Rank(7).number(), 7);
  EXPECT_EQ(Rank(7).index(), 7U);
  EXPECT_EQ(Rank(kMost).number(), kMost);
  expect_error(ErrorKind::kBadInput, {"-1 is not a rank: ranks count from 0"}, [] { Rank(-1); });
  expect_error(ErrorKind::kBadInput, {"-9223372036854775808 is not a rank"}, [] { Rank{kLeast}; });
}

TEST(Rank, IsTheOneThatIsSoFarAbove) {
  EXPECT_EQ(Rank(5) + 3, Rank(8));
  EXPECT_EQ(Rank(5) + 0, Rank(5));
  EXPECT_EQ(Rank(5) + -5, Rank(0));
  EXPECT_EQ(Rank(kMost - 1) + 1, Rank(kMost));
  EXPECT_EQ(Rank(0) + kMost, Rank(kMost));
  EXPECT_EQ(Rank(kMost) + -kMost, Rank(0));
  Rank rank(8);
  EXPECT_EQ(++rank, Rank(9));
  EXPECT_EQ(rank, Rank(9));
}

TEST(Rank, IsNeitherBelow0NorBeyond64Bits) {
  expect_error(ErrorKind::kBadInput, {"-1 is not a rank"}, [] { Rank(5) + -6; });
  expect_error(ErrorKind::kBadInput, {"is not a rank"}, [] { Rank(0) + kLeast; });
  expect_error(ErrorKind::kBadInput, {"is not a rank"}, [] { Rank(kMost) + kLeast; });
  expect_error(ErrorKind::kBadInput, {"9223372036854775807 above rank 1", "64-bit"},
               [] { Rank(1) + kMost; });
  expect_error(ErrorKind::kBadInput, {"1 above rank 9223372036854775807", "64-bit"},
               [] { Rank(kMost) + 1; });
  Rank last(kMost);
  expect_error(ErrorKind::kBadInput, {"64-bit"}, [&] { ++last; });
  EXPECT_EQ(last, Rank(kMost));
}

TEST(Rank, IsSoFarFromAnother) {
  EXPECT_EQ(Rank(8) - Rank(5), 3);
  EXPECT_EQ(Rank(5) - Rank(8), -3);
  EXPECT_EQ(Rank(5) - Rank(5), 0);
  EXPECT_EQ(Rank(0) - Rank(kMost), -kMost);
}

TEST(Rank, IsOrderedByItsNumber) {
  EXPECT_LT(Rank(2), Rank(10));
  EXPECT_LE(Rank(2), Rank(2));
  EXPECT_GT(Rank(3), Rank(2));
  EXPECT_NE(Rank(3), Rank(2));
  std::vector<Rank> some = test::ranks({7, 0, 3});
  std::sort(some.begin(), some.end());
  EXPECT_EQ(some, test::ranks({0, 3, 7}));
}

TEST(Rank, IsWrittenAsItsNumber) {
  EXPECT_EQ(to_string(Rank(12)), "12");
  EXPECT_EQ(fmt::format("rank {}, [{:>4}], [{:<3}]", Rank(12), Rank(7), Rank(0)),
            "rank 12, [   7], [0  ]");
  JsonWriter json;
  json.open_object();
  json.member("rank", Rank(3));
  json.numbers("ranks", test::ranks({0, 2}));
  json.close_object();
  EXPECT_EQ(json.take(), R"({"rank":3,"ranks":[0,2]})");
}

TEST(RankRange, HasItsRanksInOrder) {
  const RankRange range(Rank(3), 4);
  EXPECT_EQ(range.first(), Rank(3));
  EXPECT_EQ(range.size(), 4);
  EXPECT_FALSE(range.empty());
  EXPECT_EQ(std::vector<Rank>(range.begin(), range.end()), test::ranks({3, 4, 5, 6}));
  std::vector<Rank> seen;
  for (const Rank rank : range) seen.push_back(rank);
  EXPECT_EQ(seen, test::ranks({3, 4, 5, 6}));
  auto at = range.begin();
  EXPECT_EQ(*at++, Rank(3));
  EXPECT_EQ(*at, Rank(4));
  EXPECT_EQ(range, RankRange(Rank(3), 4));
  EXPECT_NE(range, RankRange(Rank(3), 5));
  EXPECT_NE(range, RankRange(Rank(2), 4));
}

TEST(RankRange, ContainsItsFirstAndLastAlone) {
  const RankRange range(Rank(3), 4);
  EXPECT_FALSE(range.contains(Rank(2)));
  EXPECT_TRUE(range.contains(Rank(3)));
  EXPECT_TRUE(range.contains(Rank(6)));
  EXPECT_FALSE(range.contains(Rank(7)));
  EXPECT_FALSE(range.contains(Rank(0)));
  EXPECT_FALSE(range.contains(Rank(kMost)));
}

TEST(RankRange, MayBeEmpty) {
  for (const RankRange& range : {RankRange(), RankRange(Rank(0), 0), RankRange(Rank(5), 0)}) {
    EXPECT_TRUE(range.empty());
    EXPECT_EQ(range.size(), 0);
    EXPECT_EQ(range.begin(), range.end());
    EXPECT_FALSE(range.contains(range.first()));
  }
  EXPECT_EQ(RankRange(Rank(kMost), 0).size(), 0);
}

TEST(RankRange, HasAnEndThatIsARank) {
  EXPECT_EQ(RankRange(Rank(0), kMost).size(), kMost);
  EXPECT_TRUE(RankRange(Rank(1), kMost - 1).contains(Rank(kMost - 1)));
  expect_error(ErrorKind::kBadInput, {"64-bit"}, [] { RankRange(Rank(1), kMost); });
  expect_error(ErrorKind::kBadInput, {"64-bit"}, [] { RankRange(Rank(kMost), 1); });
  expect_error(ErrorKind::kBadInput, {"no -2 ranks"}, [] { RankRange(Rank(5), -2); });
  expect_error(ErrorKind::kBadInput, {"-1 is not a rank"}, [] { RankRange(Rank(5), -6); });
}

}  // namespace
}  // namespace reshardfs::rank_tests
