// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/traffic_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/traffic/traffic.h"
#include "support/checkpoint.h"
#include "support/ranks.h"
#include "support/wire.h"

namespace reshardfs::traffic_survey_tests {
namespace {

using test::memory_set;
using test::record;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

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
  const RankGroups groups(test::ranks({0, 1, 2, 3, 7, 9, 10}), 3);
  EXPECT_EQ(groups.group_size(), 4U);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_THAT(groups.group(0), ElementsAreArray(test::ranks({0, 1, 2, 3})));
  EXPECT_THAT(groups.group(1), ElementsAreArray(test::ranks({7, 9, 10})));
  EXPECT_EQ(groups.group_of(groups.position_of(Rank(9))), 1U);
}

TEST(RankGroups, ShowsEachRankWhereThereIsOneGroup) {
  const RankGroups groups(test::ranks({3, 4, 5, 6, 7}), 1);
  EXPECT_EQ(groups.group_size(), 8U);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_THAT(groups.group(0), ElementsAreArray(test::ranks({3, 4, 5, 6, 7})));
  EXPECT_EQ(groups.position_of(Rank(3)), 0U);
  EXPECT_EQ(groups.position_of(Rank(7)), 4U);
}

TEST(RankGroups, LeavesFewRanksAlone) {
  const RankGroups groups(test::ranks({4, 5}), 2);
  EXPECT_EQ(groups.group_size(), 1U);
  EXPECT_THAT(groups.group(1), ElementsAreArray(test::ranks({5})));
}

TEST(TrafficSurvey, IsTheSumOfTheTrafficOfEachRank) {
  const auto target = four_ranks({{"v", kRows}, {"w", kColumns}});
  const TrafficSurvey survey = survey_traffic(*target, test::ranks({0, 1, 3}), 64);
  std::uint64_t total = 0;
  for (std::size_t row = 0; row < 3; ++row) {
    const Rank rank = survey.destinations.ranks()[row];
    std::vector<std::uint64_t> expected(4, 0);
    for (const SourceTraffic& source : traffic_of(*target, rank)) {
      expected[source.rank.index()] += source.bytes;
      total += source.bytes;
    }
    for (std::size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(survey.bytes(row, column), expected[column]) << rank.number() << " from " << column;
    }
  }
  EXPECT_EQ(survey.total_bytes, total);
  // A row of v, a quarter of each row of w, and the scalar.
  EXPECT_EQ(survey.bytes(0, 0), 8U + 2U + 1U);
  EXPECT_EQ(survey.bytes(2, 1), 2U);
}

TEST(TrafficSurvey, AddsUpGroups) {
  const auto target = four_ranks({{"v", kRows}, {"w", kRows}});
  const TrafficSurvey survey = survey_traffic(*target, test::ranks({0, 1, 2, 3}), 2);
  ASSERT_EQ(survey.destinations.size(), 2U);
  EXPECT_THAT(survey.group_bytes, ElementsAre(32 + 2, 0, 2, 32));
  EXPECT_THAT(survey.destination_bytes, ElementsAre(17, 17, 17, 17));
  EXPECT_THAT(survey.source_bytes, ElementsAre(16 + 4, 16, 16, 16));
}

TEST(TrafficSurvey, LooksAtParametersThatAreAlikeOnce) {
  const auto alike = four_ranks({{"v", kRows}, {"w", kRows}});
  const TrafficSurvey survey = survey_traffic(*alike, test::ranks({0, 1, 2, 3}), 64);
  EXPECT_THAT(survey.kind_of, ElementsAre(0, 0, 1));
  EXPECT_EQ(survey.kinds[0].count, 2U);
  EXPECT_EQ(survey.kinds[0].source_ranks, test::ranks({0, 1, 2, 3}));
  EXPECT_EQ(survey.kinds[1].source_ranks, test::ranks({0}));
  const auto differing = four_ranks({{"v", kRows}, {"w", kColumns}});
  EXPECT_THAT(survey_traffic(*differing, test::ranks({0, 1, 2, 3}), 64).kind_of,
              ElementsAre(0, 1, 2));
}

/// The kinds of the parameters that one rank's file holds, without strategies.
std::vector<std::size_t> kinds_in_one_file(const std::string& records) {
  const TargetTable target(
      std::make_shared<const SourceTable>(memory_set({{0, records}}), std::nullopt), std::nullopt,
      TargetOptions{});
  return survey_traffic(target, test::ranks({0}), 64).kind_of;
}

TEST(TrafficSurvey, TellsShapesAndElementSizesApart) {
  EXPECT_THAT(
      kinds_in_one_file(record("a", {2}, "Int8", "ab") + record("b", {2}, "UInt8", "ab") +
                        record("c", {2}, "Int16", "abcd") + record("d", {2, 1}, "Int8", "ab") +
                        record("e", {1}, "Int16", "ab")),
      ElementsAre(0, 0, 1, 2, 3));
}

TEST(TrafficSurvey, TellsFilesApart) {
  // One stage holds a, the other one b.
  const Layout one{.device_matrix = {1}, .tensor_map = {{}}};
  const auto set =
      memory_set({{0, record("a", {2}, "Int8", "ab")}, {1, record("b", {2}, "Int8", "cd")}});
  const TargetTable target(
      std::make_shared<const SourceTable>(set, Strategy({{{"a", one}}, {{"b", one}}}, 0, true)),
      std::nullopt, TargetOptions{});
  const TrafficSurvey survey = survey_traffic(target, test::ranks({0}), 64);
  EXPECT_THAT(survey.kind_of, ElementsAre(0, 1));
  EXPECT_THAT(survey.source_bytes, ElementsAre(2, 2));
}

TEST(TrafficSurvey, TellsCutsOfTheSourceApart) {
  // One is in halves of rows, the other one in halves of columns, of the same files.
  const Layout top{.device_matrix = {2}, .tensor_map = {{0}, {}}};
  const Layout left{.device_matrix = {2}, .tensor_map = {{}, {0}}};
  std::map<std::int64_t, std::string> files;
  for (const std::int64_t rank : {0, 1}) {
    files[rank] = record("v", {1, 2}, "Int8", "ab") + record("w", {2, 1}, "Int8", "cd");
  }
  auto source = std::make_shared<const SourceTable>(
      memory_set(files), Strategy({{{"v", top}, {"w", left}}}, 0, false));
  const TargetTable target(std::move(source), std::nullopt, TargetOptions{});
  EXPECT_THAT(survey_traffic(target, test::ranks({0}), 64).kind_of, ElementsAre(0, 1));
}

TEST(TrafficSurvey, TellsApartWhichStagesKeepAParameter) {
  const Layout rows{.device_matrix = {2}, .tensor_map = {{0}}};
  const Layout one{.device_matrix = {1}, .tensor_map = {{}}};
  std::map<std::int64_t, std::string> files;
  for (const std::int64_t rank : {0, 1}) {
    for (const char* name : {"w", "free", "a", "b", "c"})
      files[rank] += record(name, {1}, "Int8", "x");
  }
  auto source =
      std::make_shared<const SourceTable>(memory_set(files), Strategy({{{"w", rows}}}, 0, false));
  TargetOptions options;
  options.unmatched = Unmatched::kReplicate;
  // The first stage alone keeps a and b, both keep c; of the free one no stage says anything.
  const TargetTable target(
      std::move(source),
      Strategy({{{"w", one}, {"a", one}, {"b", one}, {"c", one}}, {{"w", one}, {"c", one}}}, 0,
               true),
      options);
  const TrafficSurvey survey = survey_traffic(target, test::ranks({0, 1}), 64);
  EXPECT_THAT(survey.kind_of, ElementsAre(0, 1, 2, 2, 3));
  EXPECT_THAT(survey.destination_bytes, ElementsAre(2 + 1 + 2 + 1, 2 + 1 + 1));
}

TEST(TrafficSurvey, TellsDestinationStagesApart) {
  // All three are whole on each source rank; the destination has two stages of one device.
  const Layout whole{.device_matrix = {2}, .tensor_map = {{}}};
  const Layout one{.device_matrix = {1}, .tensor_map = {{}}};
  std::map<std::int64_t, std::string> files;
  for (const std::int64_t rank : {0, 1}) {
    for (const char* name : {"a", "b", "c"}) files[rank] += record(name, {2}, "Int8", "ab");
  }
  auto source = std::make_shared<const SourceTable>(
      memory_set(files), Strategy({{{"a", whole}, {"b", whole}, {"c", whole}}}, 0, false));
  const TargetTable target(std::move(source),
                           Strategy({{{"a", one}, {"c", one}}, {{"b", one}, {"c", one}}}, 0, true),
                           TargetOptions{});
  const TrafficSurvey survey = survey_traffic(target, test::ranks({0, 1}), 64);
  EXPECT_THAT(survey.kind_of, ElementsAre(0, 1, 2));
  EXPECT_THAT(survey.destination_bytes, ElementsAre(4, 4));
}

TEST(TrafficSurvey, LooksAtEachRawSlice) {
  // Copied from the source rank of the same number, whatever it holds.
  std::map<std::int64_t, std::string> files;
  for (const std::int64_t rank : {0, 1}) {
    const std::string own(2, static_cast<char>('0' + rank));
    files[rank] = record("v", {2}, "Int8", own) + record("w", {2}, "Int8", own);
  }
  auto source = std::make_shared<const SourceTable>(
      memory_set(files),
      Strategy({{{"x", Layout{.device_matrix = {2}, .tensor_map = {{}}}}}}, 0, false));
  TargetOptions options;
  options.unmatched = Unmatched::kSource;
  const TargetTable target(
      std::move(source),
      Strategy({{{"x", Layout{.device_matrix = {2}, .tensor_map = {{}}}}}}, 0, false), options);
  const TrafficSurvey survey = survey_traffic(target, test::ranks({0, 1}), 64);
  EXPECT_THAT(survey.kind_of, ElementsAre(0, 1));
  EXPECT_THAT(survey.group_bytes, ElementsAre(4, 0, 0, 4));
}

TEST(TrafficSurvey, CountsARankInSeveralFilesOnce) {
  const auto set =
      test::segmented_set({{0, {record("a", {2}, "Int8", "ab"), record("b", {3}, "Int8", "cde")}}});
  const TargetTable target(std::make_shared<const SourceTable>(set, std::nullopt), std::nullopt,
                           TargetOptions{});
  const TrafficSurvey survey = survey_traffic(target, test::ranks({0}), 64);
  EXPECT_EQ(survey.sources.ranks(), test::ranks({0}));
  EXPECT_THAT(survey.source_bytes, ElementsAre(5));
  EXPECT_EQ(survey.total_bytes, 5U);
  // By file, in the order of the parts.
  const std::vector<SourceTraffic> traffic = traffic_of(target, Rank(0));
  ASSERT_EQ(traffic.size(), 2U);
  EXPECT_EQ(traffic[0].bytes, 2U);
  EXPECT_EQ(traffic[1].bytes, 3U);
  EXPECT_EQ(traffic[1].file, "set/rank_0/a_part1.ckpt");
}

TEST(TrafficSurvey, LeavesOutWhatHasNoBytesAndWhatNoFileHas) {
  const auto set =
      memory_set({{1, record("v", {1, 2}, "Int8", "ab") + record("empty", {0}, "Int8", "")}});
  const Layout rows{.device_matrix = {2}, .tensor_map = {{0}, {}}};
  auto source = std::make_shared<const SourceTable>(set, Strategy({{{"v", rows}}}, 0, false));
  const TargetTable target(std::move(source), std::nullopt, TargetOptions{});
  const TrafficSurvey survey = survey_traffic(target, test::ranks({0}), 64);
  EXPECT_EQ(survey.total_bytes, 2U);
  EXPECT_EQ(survey.kinds[0].source_ranks, test::ranks({1}));
  EXPECT_EQ(survey.kinds[1].source_ranks, test::ranks({}));
  ASSERT_EQ(traffic_of(target, Rank(0)).size(), 1U);
  EXPECT_EQ(traffic_of(target, Rank(0))[0].rank, Rank(1));
}

}  // namespace
}  // namespace reshardfs::traffic_survey_tests
