// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/device_ranks.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"
#include "support/ranks.h"

namespace reshardfs {
namespace {

using test::ranks;
using testing::ElementsAre;
using testing::Optional;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// The ranks at the first so many places.
std::vector<Rank> at_places(const DeviceRanks& devices, std::int64_t count) {
  std::vector<Rank> out;
  for (std::int64_t place = 0; place < count; ++place) out.push_back(devices.at(place));
  return out;
}

/// Every rank of the list has the place at which it stands, and no other rank below `end` has any.
void expect_places(const DeviceRanks& devices, const std::vector<Rank>& list, std::int64_t end) {
  std::vector<std::optional<std::int64_t>> expected(static_cast<std::size_t>(end));
  for (std::size_t i = 0; i < list.size(); ++i) {
    expected[list[i].index()] = static_cast<std::int64_t>(i);
  }
  EXPECT_EQ(at_places(devices, static_cast<std::int64_t>(list.size())), list);
  for (const Rank rank : RankRange(Rank(), end)) {
    EXPECT_EQ(devices.place_of(rank), expected[rank.index()]) << to_string(rank);
  }
}

TEST(DeviceRanks, MayBeARange) {
  expect_places(DeviceRanks(RankRange(Rank(4), 3)), ranks({4, 5, 6}), 10);
  EXPECT_FALSE(DeviceRanks(RankRange(Rank(3), 3)).is_group());
}

TEST(DeviceRanks, MayBeListed) {
  for (const auto& list : {ranks({7}), ranks({4, 5, 6}), ranks({0, 2, 1, 3}), ranks({3, 2, 1, 0}),
                           ranks({1, 3, 8}), ranks({5, 6, 0}), ranks({0, 1, 2, 4})}) {
    expect_places(DeviceRanks(list), list, 10);
    EXPECT_FALSE(DeviceRanks(list).is_group());
  }
}

TEST(DeviceRanks, OfOneGroupGiveRanksOfOtherGroupsAPlace) {
  const DeviceRanks devices = DeviceRanks::one_group(ranks({4, 5, 6, 7}));
  EXPECT_TRUE(devices.is_group());
  EXPECT_THAT(at_places(devices, 4), ElementsAre(Rank(4), Rank(5), Rank(6), Rank(7)));
  EXPECT_THAT(devices.place_of(Rank(6)), Optional(2));
  EXPECT_THAT(devices.place_of(Rank(1)), Optional(1));
  EXPECT_THAT(devices.place_of(Rank(8)), Optional(0));
  EXPECT_THAT(devices.place_of(Rank(kMost)), Optional(3));
  const DeviceRanks alone = DeviceRanks::one_group(ranks({3}));
  EXPECT_TRUE(alone.is_group());
  EXPECT_THAT(alone.place_of(Rank(9)), Optional(0));
}

TEST(DeviceRanks, ThatAreNoGroupGiveNoOtherRankAPlace) {
  for (const auto& list : {ranks({1, 2}), ranks({2, 3, 4}), ranks({0, 2}), ranks({0, 2, 1, 3}),
                           ranks({1, 0}), ranks({0, 1, 3, 2})}) {
    const DeviceRanks devices = DeviceRanks::one_group(list);
    EXPECT_FALSE(devices.is_group());
    expect_places(devices, list, 10);
  }
}

TEST(DeviceRanks, AreEqualWhereTheyAreTheSame) {
  const DeviceRanks range(RankRange(Rank(2), 2));
  EXPECT_EQ(range, DeviceRanks(ranks({2, 3})));
  EXPECT_NE(range, DeviceRanks(ranks({3, 2})));
  EXPECT_NE(range, DeviceRanks(RankRange(Rank(2), 4)));
  EXPECT_NE(range, DeviceRanks(RankRange(Rank(4), 2)));
  EXPECT_NE(range, DeviceRanks::one_group(ranks({2, 3})));
  EXPECT_EQ(DeviceRanks::one_group(ranks({2, 3})), DeviceRanks::one_group(ranks({2, 3})));
  EXPECT_EQ(DeviceRanks::one_group(ranks({1, 2})), DeviceRanks(ranks({1, 2})));
  const DeviceRanks listed(ranks({0, 2}));
  const DeviceRanks copy = listed;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(listed, copy);
  EXPECT_NE(listed, DeviceRanks(ranks({0, 2}))) << "another object";
}

TEST(DeviceRanks, NeedARankBehindARange) {
  test::expect_error(ErrorKind::kBadInput, {std::to_string(kMost)},
                     [] { DeviceRanks(std::vector{Rank(kMost)}); });
  const DeviceRanks listed(std::vector{Rank(kMost), Rank(0)});
  EXPECT_THAT(listed.place_of(Rank(kMost)), Optional(0));
}

}  // namespace
}  // namespace reshardfs
