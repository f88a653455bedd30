// SPDX-License-Identifier: Apache-2.0
/// SourceTable, TargetTable and the order of records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/target/target_table.h"
#include "plan/traffic/traffic.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temp_dir.h"
#include "support/two_rows.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::kRows;
using test::kWhole;
using test::memory_set;
using test::record;
using test::rows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Strategy one_stage(StageLayouts layouts) {
  return Strategy({std::move(layouts)}, 0, false);
}

/// Two ranks that hold a row each of "w" and of "adam_m.w", and equal and differing scalars.
std::shared_ptr<const CheckpointSet> two_ranks() {
  return memory_set({{0, rows("w", "abcd") + rows("adam_m.w", "ABCD") +
                             record("same", {1}, "Int8", "s") + record("seed", {1}, "Int8", "0")},
                     {1, rows("w", "efgh") + rows("adam_m.w", "EFGH") +
                             record("same", {1}, "Int8", "s") + record("seed", {1}, "Int8", "1")}});
}

std::shared_ptr<const SourceTable> source_table(std::shared_ptr<const CheckpointSet> set,
                                                StageLayouts layouts) {
  return std::make_shared<const SourceTable>(std::move(set), one_stage(std::move(layouts)));
}

/// name=bytes of a rank, in the order of the file.
std::vector<std::string> contents(const TargetTable& target, Rank rank) {
  std::vector<std::string> out;
  for (const TargetParameter* parameter : in_file_order(target, rank)) {
    const ShownTensor view = target.view(*parameter, rank);
    std::vector<std::byte> bytes(view.size());
    ReadBatch batch;
    view.read(0, bytes, batch);
    out.push_back(parameter->source->name + "=" + test::text_of(bytes));
  }
  return out;
}

TargetOptions without_seed(Unmatched unmatched) {
  return {unmatched, {{}, {"seed"}}, {}, {}};
}

TEST(SourceTable, RefusesARankThatTheStrategyDoesNotHave) {
  expect_error(ErrorKind::kBadInput, {"2 ranks", "also has rank 2", "--src-strategy"}, [] {
    const SourceTable table(
        memory_set({{0, rows("w", "abcd")}, {1, rows("w", "abcd")}, {2, rows("w", "abcd")}}),
        one_stage({{"w", kRows}}));
  });
}

TEST(SourceTable, RefusesSlicesOfDifferentShapes) {
  expect_error(ErrorKind::kBadInput, {"'w'", "rank 0: Int8 [1, 4]", "rank 1: Int8 [4, 1]"}, [] {
    const SourceTable table(
        memory_set({{0, rows("w", "abcd")}, {1, record("w", {4, 1}, "Int8", "abcd")}}),
        one_stage({{"w", kRows}}));
  });
}

TEST(SourceTable, RefusesDifferentElementTypes) {
  expect_error(ErrorKind::kBadInput, {"'w'", "element type", "ranks 0,2", "rank 1"}, [] {
    const SourceTable table(memory_set({{0, record("w", {2}, "Int8", "ab")},
                                        {1, record("w", {2}, "UInt8", "ab")},
                                        {2, record("w", {2}, "Int8", "ab")}}),
                            std::nullopt);
  });
}

TEST(SourceTable, RefusesALayoutOfOtherDimensions) {
  expect_error(ErrorKind::kBadInput, {"'w'", "1 dimension,", "[1, 4]"}, [] {
    const SourceTable table(memory_set({{0, rows("w", "abcd")}, {1, rows("w", "efgh")}}),
                            one_stage({{"w", {.device_matrix = {2}, .tensor_map = {{0}}}}}));
  });
}

TEST(SourceTable, TakesAFileOfOneStageWhereItsRanksAre) {
  const auto set = memory_set({{2, rows("w", "abcd")}, {3, rows("w", "efgh")}});
  const SourceTable in_place(set, Strategy({{{"w", kRows}}}, 1, false));
  EXPECT_EQ(in_place.ranks().all(), RankRange(Rank(2), 2));
  const auto renumbered = memory_set({{0, rows("w", "abcd")}, {1, rows("w", "efgh")}});
  const SourceTable from_zero(renumbered, Strategy({{{"w", kRows}}}, 1, false));
  EXPECT_EQ(from_zero.ranks().all(), RankRange(Rank(0), 2));
}

TEST(TargetTable, MergesWithoutADestinationStrategy) {
  const TargetTable target(source_table(two_ranks(), {{"w", kRows}}), std::nullopt,
                           without_seed(Unmatched::kDrop));
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("w=abcdefgh", "adam_m.w=ABCDEFGH", "same=s"));
}

TEST(TargetTable, LaysStatesOutLikeTheirWeights) {
  const Layout columns{.device_matrix = {2}, .tensor_map = {{}, {0}}};
  const TargetTable target(source_table(two_ranks(), {{"w", kRows}}), one_stage({{"w", columns}}),
                           without_seed(Unmatched::kDrop));
  EXPECT_THAT(contents(target, Rank(1)), ElementsAre("w=cdgh", "adam_m.w=CDGH", "same=s"));
  ASSERT_EQ(target.notes().size(), 1U);
  EXPECT_THAT(target.notes()[0], HasSubstr("adam_m.w"));
}

TEST(TargetTable, TakesARankInSeveralFilesAsOne) {
  const auto set = test::segmented_set({{0, {rows("w", "abcd"), rows("adam_m.w", "ABCD")}},
                                        {1, {rows("w", "efgh"), rows("adam_m.w", "EFGH")}}});
  const TargetTable target(source_table(set, {{"w", kRows}}), std::nullopt,
                           {Unmatched::kDrop, {}, {}, {}});
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("w=abcdefgh", "adam_m.w=ABCDEFGH"));
  EXPECT_EQ(needed_ranks(target, Rank(0)), test::ranks({0, 1}));
}

TEST(TargetTable, FollowsWeightsBehindOtherPrefixes) {
  const auto set = memory_set({{0, rows("w", "abcd") + rows("my_state.w", "ABCD")},
                               {1, rows("w", "efgh") + rows("my_state.w", "EFGH")}});
  EXPECT_THROW(TargetTable(source_table(set, {{"w", kRows}}), one_stage({{"w", kRows}}),
                           {Unmatched::kDrop, {}, {}, {}}),
               Error);
  const TargetTable target(source_table(set, {{"w", kRows}}), one_stage({{"w", kRows}}),
                           {Unmatched::kDrop, {}, {}, {"my_state."}});
  EXPECT_THAT(contents(target, Rank(1)), ElementsAre("w=efgh", "my_state.w=EFGH"));
}

TEST(TargetTable, DropsAndWarnsOfWhatOneStrategyAloneHas) {
  const TargetTable target(source_table(two_ranks(), {{"w", kRows}, {"adam_m.w", kRows}}),
                           one_stage({{"w", kWhole}}), without_seed(Unmatched::kDrop));
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("w=abcdefgh", "same=s"));
  ASSERT_EQ(target.warnings().size(), 1U);
  EXPECT_THAT(target.warnings()[0], HasSubstr("1 parameter (adam_m.w)"));
}

TEST(TargetTable, CopiesTheSourceRanksSliceWhenAsked) {
  const TargetTable target(source_table(two_ranks(), {{"w", kRows}, {"adam_m.w", kRows}}),
                           one_stage({{"w", kWhole}}), {Unmatched::kSource, {}, {}, {}});
  EXPECT_THAT(contents(target, Rank(1)),
              ElementsAre("w=abcdefgh", "adam_m.w=EFGH", "same=s", "seed=1"));
  EXPECT_EQ(needed_ranks(target, Rank(0)), test::ranks({0, 1}));
}

TEST(TargetTable, ReplicatesWhenAsked) {
  const TargetTable target(source_table(two_ranks(), {{"w", kRows}, {"adam_m.w", kRows}}),
                           one_stage({{"w", kRows}}), without_seed(Unmatched::kReplicate));
  EXPECT_THAT(contents(target, Rank(1)), ElementsAre("w=efgh", "adam_m.w=ABCDEFGH", "same=s"));
}

TEST(TargetTable, RefusesWhenAsked) {
  expect_error(ErrorKind::kBadInput, {"adam_m.w", "only one of the two", "--unmatched drop"}, [] {
    const TargetTable target(source_table(two_ranks(), {{"w", kRows}, {"adam_m.w", kRows}}),
                             one_stage({{"w", kRows}}), without_seed(Unmatched::kError));
  });
}

TEST(TargetTable, RefusesWhatDiffersAndHasNoLayout) {
  expect_error(ErrorKind::kBadInput, {"seed", "neither strategy", "--exclude"}, [] {
    const TargetTable target(source_table(two_ranks(), {{"w", kRows}}), one_stage({{"w", kRows}}),
                             {Unmatched::kDrop, {}, {}, {}});
  });
}

TEST(TargetTable, RefusesADestinationThatDoesNotFit) {
  const Layout thirds{.device_matrix = {3}, .tensor_map = {{}, {0}}};
  expect_error(ErrorKind::kBadInput,
               {"'w'", "target", "4 elements", "3 equal parts", "source: device matrix [2]"}, [&] {
                 const TargetTable target(source_table(two_ranks(), {{"w", kRows}}),
                                          one_stage({{"w", thirds}}),
                                          without_seed(Unmatched::kDrop));
               });
}

TEST(TargetTable, RefusesStrategiesWithNothingInCommon) {
  expect_error(ErrorKind::kBadInput, {"in both strategies", "(w)"}, [] {
    const TargetTable target(source_table(two_ranks(), {{"w", kRows}}), one_stage({{"x.w", kRows}}),
                             {Unmatched::kDrop, {{}, {"seed", "adam_m.w"}}, {}, {}});
  });
}

TEST(TargetTable, RefusesToShowNothing) {
  expect_error(ErrorKind::kBadInput, {"no parameter", "rank_0", "--include"}, [] {
    const TargetTable target(source_table(two_ranks(), {{"w", kRows}}), one_stage({{"w", kRows}}),
                             {Unmatched::kDrop, {{"nothing*"}, {}}, {}, {}});
  });
}

TEST(TargetTable, GivesEachStageItsParameters) {
  const auto set = memory_set({{0, rows("w", "abcd") + record("same", {1}, "Int8", "s")},
                               {1, rows("w", "efgh") + record("same", {1}, "Int8", "s")}});
  const Layout one{.device_matrix = {1}, .tensor_map = {{}, {}}};
  const TargetTable target(source_table(set, {{"w", kRows}}),
                           Strategy({{{"other", one}}, {{"w", one}}}, 0, true),
                           {Unmatched::kDrop, {}, {}, {}});
  EXPECT_EQ(target.rank_count(), 2);
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("same=s"));
  EXPECT_THAT(contents(target, Rank(1)), ElementsAre("w=abcdefgh", "same=s"));
}

TEST(TargetTable, WritesInt4AsInt8) {
  const auto set = memory_set(
      {{0, record("four", {2}, "Int4", "ab") + record("flag", {1}, "Bool", std::string(1, '\0'))}});
  const TargetTable target(std::make_shared<const SourceTable>(set, std::nullopt), std::nullopt,
                           {});
  EXPECT_EQ(target.parameters().at(0).dtype, DType::kInt8);
  EXPECT_EQ(target.parameters().at(1).dtype, DType::kBool);
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("four=ab", std::string("flag=\0", 6)));
}

TEST(TargetTable, CastsByDestinationName) {
  const auto set = memory_set({{0, record("old", {1}, "Float32", std::string("\0\0\x80\x3f", 4)) +
                                       record("kept", {1}, "Float32", "abcd")}});
  test::TempDir dir;
  TargetOptions options;
  options.name_map = NameMap::load(dir.write("map.json", R"({"old": "new"})"));
  options.casts = Casts({"new:fp32->bf16"});
  const TargetTable target(std::make_shared<const SourceTable>(set, std::nullopt), std::nullopt,
                           options);
  EXPECT_EQ(target.parameters().at(0).dtype, DType::kBFloat16);
  EXPECT_EQ(target.parameters().at(1).dtype, DType::kFloat32);
}

TEST(RecordOrder, StartsWithTheHighestRankThatIsRead) {
  const auto set = memory_set({{0, rows("a", "abcd") + record("same", {1}, "Int8", "s")},
                               {1, rows("b", "efgh") + record("same", {1}, "Int8", "s")}});
  const Layout one{.device_matrix = {1}, .tensor_map = {{}, {}}};
  const auto source =
      std::make_shared<const SourceTable>(set, Strategy({{{"a", one}}, {{"b", one}}}, 0, true));
  const TargetTable target(source, std::nullopt, {Unmatched::kDrop, {}, {}, {}});
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("b=efgh", "a=abcd", "same=s"));
}

TEST(RecordOrder, EndsWithWhatIsInNoFileThatIsRead) {
  const Layout whole{.device_matrix = {2}, .tensor_map = {{}}};
  const auto set =
      memory_set({{0, record("w", {1}, "Int8", "w")},
                  {1, record("none", {0}, "Int8", "") + record("w", {1}, "Int8", "w")}});
  const TargetTable target(source_table(set, {{"w", whole}, {"none", whole}}), std::nullopt, {});
  EXPECT_EQ(needed_ranks(target, Rank(0)), test::ranks({0}));
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("w=w", "none="));
}

TEST(RecordOrder, ListsWhatIsReshardedFirst) {
  const auto set = memory_set({{0, record("same", {1}, "Int8", "s") + rows("w", "abcd")},
                               {1, record("same", {1}, "Int8", "s") + rows("w", "efgh")}});
  const TargetTable target(source_table(set, {{"w", kRows}}), std::nullopt, {});
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("w=abcdefgh", "same=s"));
}

TEST(RecordOrder, TakesEachFileOfARankInItsOwnOrder) {
  const auto whole = [](const std::string& name) { return record(name, {1}, "Int8", name); };
  const auto set = test::segmented_set({{0, {whole("b") + whole("a"), whole("d") + whole("c")}}});
  const TargetTable target(std::make_shared<const SourceTable>(set, std::nullopt), std::nullopt,
                           {});
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("b=b", "a=a", "d=d", "c=c"));
}

TEST(RecordOrder, ReadsTheLowestReplica) {
  const auto set = memory_set({{0, rows("w", "abcd")}, {1, rows("w", "abcd")}});
  const TargetTable target(source_table(set, {{"w", kWhole}}), std::nullopt,
                           {Unmatched::kDrop, {}, {}, {}});
  EXPECT_EQ(needed_ranks(target, Rank(0)), test::ranks({0}));
  EXPECT_THAT(target.warnings(), IsEmpty());
}

}  // namespace
}  // namespace reshardfs
