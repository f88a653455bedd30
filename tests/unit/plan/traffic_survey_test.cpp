// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/traffic.h"
#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::memory_set;
using test::record;
using ::testing::ElementsAre;

const Layout kRows{.device_matrix = {4}, .tensor_map = {{0}, {}}};
const Layout kColumns{.device_matrix = {4}, .tensor_map = {{}, {0}}};

/// Four ranks with a row each of v and w, and the same scalar.
std::shared_ptr<const TargetTable> four_ranks(StageLayouts destination) {
  std::map<std::int64_t, std::string> files;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    files[rank] = record("v", {1, 8}, "Int8", "abcdefgh") +
                  record("w", {1, 8}, "Int8", "ijklmnop") + record("s", {1}, "Int8", "s");
  }
  auto source = std::make_shared<const SourceTable>(
      memory_set(files), Strategy({{{"v", kRows}, {"w", kRows}}}, 0, false));
  return std::make_shared<const TargetTable>(
      std::move(source), Strategy({std::move(destination)}, 0, false), TargetOptions{});
}

TEST(RankGroups, TakesPowersOfTwoUntilTheyAreFew) {
  const RankGroups groups({0, 1, 2, 3, 7, 9, 10}, 3);
  EXPECT_EQ(groups.group_size(), 4U);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_THAT(groups.group(0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(groups.group(1), ElementsAre(7, 9, 10));
  EXPECT_EQ(groups.group_of(groups.position_of(9)), 1U);
}

TEST(RankGroups, LeavesFewRanksAlone) {
  const RankGroups groups({4, 5}, 2);
  EXPECT_EQ(groups.group_size(), 1U);
  EXPECT_THAT(groups.group(1), ElementsAre(5));
}

TEST(TrafficSurvey, IsTheSumOfTheTrafficOfEachRank) {
  const auto target = four_ranks({{"v", kRows}, {"w", kColumns}});
  const TrafficSurvey survey = survey_traffic(*target, {0, 1, 3}, 64);
  std::uint64_t total = 0;
  for (std::size_t row = 0; row < 3; ++row) {
    const std::int64_t rank = survey.destinations.ranks()[row];
    std::vector<std::uint64_t> expected(4, 0);
    for (const SourceTraffic& source : traffic_of(*target, rank)) {
      expected[static_cast<std::size_t>(source.rank)] += source.bytes;
      total += source.bytes;
    }
    for (std::size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(survey.bytes(row, column), expected[column]) << rank << " from " << column;
    }
  }
  EXPECT_EQ(survey.total_bytes, total);
  // A row of v, a quarter of each row of w, and the scalar.
  EXPECT_EQ(survey.bytes(0, 0), 8U + 2U + 1U);
  EXPECT_EQ(survey.bytes(2, 1), 2U);
}

TEST(TrafficSurvey, AddsUpGroups) {
  const auto target = four_ranks({{"v", kRows}, {"w", kRows}});
  const TrafficSurvey survey = survey_traffic(*target, {0, 1, 2, 3}, 2);
  ASSERT_EQ(survey.destinations.size(), 2U);
  EXPECT_THAT(survey.group_bytes, ElementsAre(32 + 2, 0, 2, 32));
  EXPECT_THAT(survey.destination_bytes, ElementsAre(17, 17, 17, 17));
  EXPECT_THAT(survey.source_bytes, ElementsAre(16 + 4, 16, 16, 16));
}

TEST(TrafficSurvey, LooksAtParametersThatAreAlikeOnce) {
  const auto alike = four_ranks({{"v", kRows}, {"w", kRows}});
  const TrafficSurvey survey = survey_traffic(*alike, {0, 1, 2, 3}, 64);
  EXPECT_THAT(survey.kind_of, ElementsAre(0, 0, 1));
  EXPECT_EQ(survey.kinds[0].count, 2U);
  EXPECT_THAT(survey.kinds[0].source_ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(survey.kinds[1].source_ranks, ElementsAre(0));
  const auto differing = four_ranks({{"v", kRows}, {"w", kColumns}});
  EXPECT_THAT(survey_traffic(*differing, {0, 1, 2, 3}, 64).kind_of, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace reshardfs
