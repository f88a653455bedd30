// SPDX-License-Identifier: Apache-2.0
/// Which parameters a target rank has, and how they come to it. See also tables_test.cpp.
#include "plan/target/target_table.h"

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/traffic/traffic.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temp_dir.h"
#include "support/two_rows.h"
#include "support/wire.h"

namespace reshardfs::target_table_tests {
namespace {

using test::expect_error;
using test::kRows;
using test::kWhole;
using test::memory_set;
using test::record;
using test::rows;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Layout kColumns{.device_matrix = {2}, .tensor_map = {{}, {0}}};
const Layout kAlone{.device_matrix = {1}, .tensor_map = {{}, {}}};

Strategy stages(std::vector<StageLayouts> layouts) {
  return Strategy(std::move(layouts), 0, false);
}

std::shared_ptr<const SourceTable> source_of(const std::map<std::int64_t, std::string>& records,
                                             std::optional<Strategy> strategy) {
  return std::make_shared<const SourceTable>(memory_set(records), std::move(strategy));
}

const TargetParameter& named(const TargetTable& target, std::string_view name) {
  for (const TargetParameter& parameter : target.parameters()) {
    if (parameter.name == name) return parameter;
  }
  throw std::runtime_error("no parameter " + std::string(name));
}

std::string bytes_of(const TargetTable& target, const TargetParameter& parameter, Rank rank) {
  const ShownTensor view = target.view(parameter, rank);
  std::vector<std::byte> bytes(view.size());
  ReadBatch batch;
  view.read(0, bytes, batch);
  return test::text_of(bytes);
}

/// name=bytes of all parameters that a rank has, in the order of the table.
std::vector<std::string> contents(const TargetTable& target, Rank rank) {
  std::vector<std::string> out;
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    out.push_back(parameter.name + "=" + bytes_of(target, parameter, rank));
  }
  return out;
}

TargetOptions with(Unmatched unmatched) {
  TargetOptions options;
  options.unmatched = unmatched;
  return options;
}

/// The warning of a target that leaves out `count` parameters, p0 and so on.
std::string warning_of(std::size_t count) {
  std::string records = rows("w", "abcd");
  StageLayouts layouts{{"w", kRows}};
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "p" + std::to_string(i);
    records += rows(name, "abcd");
    layouts.insert_or_assign(name, kRows);
  }
  const TargetTable target(source_of({{0, records}, {1, records}}, stages({layouts})),
                           stages({{{"w", kRows}}}), with(Unmatched::kDrop));
  return target.warnings().empty() ? "" : target.warnings().front();
}

TEST(TargetTable, NamesAtMostFiveOfThoseLeftOut) {
  const std::string end = " in only one of the two strategies; see --unmatched";
  EXPECT_EQ(warning_of(0), "");
  EXPECT_EQ(warning_of(1), "left out: 1 parameter (p0)" + end);
  EXPECT_EQ(warning_of(2), "left out: 2 parameters (p0, p1)" + end);
  EXPECT_EQ(warning_of(5), "left out: 5 parameters (p0, p1, p2, p3, p4)" + end);
  EXPECT_EQ(warning_of(6), "left out: 6 parameters (p0, p1, p2, p3, p4, ...)" + end);
}

TEST(TargetTable, LeavesOutWhatStandsBeforeAndBehindWhatIsResharded) {
  for (const std::string names : {"wxy", "xwy", "xyw"}) {
    std::string records;
    for (const char name : names) records += rows(std::string(1, name), "abcd");
    const TargetTable target(
        source_of({{0, records}, {1, records}}, stages({{{"w", kRows}, {"x", kRows}}})),
        stages({{{"w", kRows}}}), {});
    EXPECT_EQ(target.warnings().size(), 1U) << names;
    EXPECT_EQ(target.parameters().size(), 2U) << names;
  }
}

TEST(WeightOf, TakesGivenPrefixesBeforeMindSporesOwn) {
  EXPECT_EQ(weight_of("adam_m.w"), "w");
  EXPECT_EQ(weight_of("w"), "");
  EXPECT_EQ(weight_of("my.w", {"other.", "my."}), "w");
  EXPECT_EQ(weight_of("my.w", {"other."}), "");
  EXPECT_EQ(weight_of("w", {""}), "");
  EXPECT_EQ(weight_of("adam_m.w", {"", "adam_"}), "m.w");
}

TEST(TargetTable, IsOneRankWithoutADestinationStrategy) {
  const TargetTable target(source_of({{0, rows("w", "abcd")}}, std::nullopt), std::nullopt, {});
  EXPECT_EQ(target.rank_count(), 1);
  EXPECT_EQ(target.layout(target.parameters().front(), Rank(0)), nullptr);
  EXPECT_EQ(target.slice_shape(target.parameters().front(), Rank(0)), (Shape{1, 4}));
}

TEST(TargetTable, KeepsWhatSourceRulesDoNotCutAndTheDestinationDoesNotKnow) {
  const std::map<std::int64_t, std::string> records{
      {0, rows("w", "abcd") + rows("s", "same") + rows("cut", "ABCD")},
      {1, rows("w", "efgh") + rows("s", "same") + rows("cut", "EFGH")}};
  const StageLayouts layouts{{"w", kRows}, {"s", kWhole}, {"cut", kRows}};
  TargetOptions options;
  const TargetTable listed(source_of(records, stages({layouts})), stages({{{"w", kRows}}}),
                           options);
  EXPECT_THAT(contents(listed, Rank(0)), ElementsAre("w=abcd"));
  options.source_has_rules = true;
  const TargetTable rules(source_of(records, stages({layouts})), stages({{{"w", kRows}}}), options);
  EXPECT_THAT(contents(rules, Rank(1)), ElementsAre("w=efgh", "s=same"));
  EXPECT_EQ(named(rules, "s").treatment, Treatment::kKeep);
  // What the destination lays out it gets, cut by the source or not.
  const TargetTable both(source_of(records, stages({layouts})), stages({{{"s", kColumns}}}),
                         options);
  EXPECT_THAT(contents(both, Rank(1)), ElementsAre("s=me"));
}

TEST(TargetTable, CutsWholeParametersWithoutASourceStrategy) {
  const std::string adam = record("adam_m.w", {2, 4}, "Int8", "ABCDEFGH");
  const TargetTable target(
      source_of({{0, record("w", {2, 4}, "Int8", "abcdefgh") + adam +
                         record("adam_v.w", {1}, "Int8", "v") + rows("free", "free") +
                         record("adam_m.free", {1, 4}, "Int8", "FREE")}},
                std::nullopt),
      stages({{{"w", kRows}}}), {});
  EXPECT_THAT(contents(target, Rank(1)), ElementsAre("w=efgh", "adam_m.w=EFGH", "adam_v.w=v",
                                                     "free=free", "adam_m.free=FREE"));
  // The state of the weight's shape is laid out like it; the one of another shape is not.
  EXPECT_EQ(named(target, "adam_m.w").treatment, Treatment::kReshard);
  EXPECT_EQ(named(target, "adam_v.w").treatment, Treatment::kKeep);
  EXPECT_EQ(named(target, "free").treatment, Treatment::kKeep);
  ASSERT_EQ(target.notes().size(), 1U);
  EXPECT_EQ(target.notes()[0], "cut like their weights: 1 parameter (adam_m.w)");
}

TEST(TargetTable, KeepsAStateWhoseWeightIsNotThere) {
  const std::string records = rows("w", "abcd") + rows("adam_m.gone", "same");
  const TargetTable target(source_of({{0, records}, {1, records}}, stages({{{"w", kRows}}})),
                           stages({{{"w", kRows}}}), {});
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("w=abcd", "adam_m.gone=same"));
}

TEST(TargetTable, StatesFollowTheirWeightUnderItsNewName) {
  const test::TempDir dir;
  TargetOptions options;
  options.name_map = NameMap::load(dir.write("map.json", R"({"w": "v", "adam_m.w": "adam_m.v"})"));
  const TargetTable target(source_of({{0, rows("w", "abcd") + rows("adam_m.w", "ABCD")},
                                      {1, rows("w", "efgh") + rows("adam_m.w", "EFGH")}},
                                     stages({{{"w", kRows}}})),
                           stages({{{"v", kColumns}}}), options);
  EXPECT_THAT(contents(target, Rank(0)), ElementsAre("v=abef", "adam_m.v=ABEF"));
  ASSERT_NE(target.layout(named(target, "v"), Rank(0)), nullptr);
  EXPECT_EQ(*target.layout(named(target, "v"), Rank(0)), kColumns);
  ASSERT_NE(target.layout(named(target, "adam_m.v"), Rank(0)), nullptr);
  EXPECT_EQ(*target.layout(named(target, "adam_m.v"), Rank(0)), kColumns);
}

TEST(TargetTable, KnowsTheLayoutOfEachStage) {
  const auto source = source_of({{0, rows("a", "abcd") + rows("b", "ABCD") + rows("s", "same")},
                                 {1, rows("a", "efgh") + rows("b", "EFGH") + rows("s", "same")}},
                                stages({{{"a", kRows}, {"b", kRows}}}));
  const TargetTable target(source, stages({{{"a", kColumns}}, {{"b", kWhole}, {"a", kRows}}}), {});
  EXPECT_EQ(target.rank_count(), 4);
  const TargetParameter& a = named(target, "a");
  const TargetParameter& b = named(target, "b");
  for (const Rank rank : {Rank(0), Rank(1)}) {
    EXPECT_EQ(*target.layout(a, rank), kColumns);
    EXPECT_EQ(target.slice_shape(a, rank), (Shape{2, 2}));
    EXPECT_FALSE(target.has(b, rank));
    EXPECT_FALSE(target.lacks(b, rank));
    EXPECT_EQ(target.layout(b, rank), nullptr);
    EXPECT_EQ(target.layout(named(target, "s"), rank), nullptr);
    EXPECT_EQ(target.slice_shape(named(target, "s"), rank), (Shape{1, 4}));
  }
  for (const Rank rank : {Rank(2), Rank(3)}) {
    EXPECT_EQ(*target.layout(a, rank), kRows);
    EXPECT_EQ(target.slice_shape(a, rank), (Shape{1, 4}));
    EXPECT_EQ(*target.layout(b, rank), kWhole);
    EXPECT_EQ(target.slice_shape(b, rank), (Shape{2, 4}));
  }
  EXPECT_THAT(contents(target, Rank(1)), ElementsAre("a=cdgh", "s=same"));
  EXPECT_THAT(contents(target, Rank(3)), ElementsAre("a=efgh", "b=ABCDEFGH", "s=same"));
}

TEST(TargetTable, SharesTheCutsOfParametersThatAreAlike) {
  const auto source = source_of({{0, rows("a", "abcd") + rows("b", "ABCD") + rows("c", "0123") +
                                         record("d", {1, 2}, "Int8", "xy")}},
                                std::nullopt);
  const TargetTable cut(
      source, stages({{{"a", kColumns}, {"b", kColumns}, {"c", kWhole}, {"d", kColumns}}}), {});
  EXPECT_EQ(named(cut, "a").stages, named(cut, "b").stages);
  EXPECT_NE(named(cut, "a").stages, named(cut, "c").stages);
  EXPECT_NE(named(cut, "a").stages, named(cut, "d").stages);
  EXPECT_THAT(contents(cut, Rank(1)), ElementsAre("a=cd", "b=CD", "c=0123", "d=y"));
  const TargetTable whole(source, std::nullopt, {});
  EXPECT_EQ(named(whole, "a").stages, named(whole, "b").stages);
  EXPECT_NE(named(whole, "a").stages, named(whole, "d").stages);
}

TEST(TargetTable, SaysWhatAStateIsCutLikeWhereItDoesNotFit) {
  const Layout thirds{.device_matrix = {3}, .tensor_map = {{}, {0}}};
  const std::map<std::int64_t, std::string> records{
      {0, rows("w", "abcd") + rows("adam_m.w", "ABCD")},
      {1, rows("w", "efgh") + rows("adam_m.w", "EFGH")}};
  TargetOptions options;
  options.names.exclude = {"w"};
  expect_error(ErrorKind::kBadInput,
               {"'adam_m.w'", "shape [2, 4]", "source: device matrix [2], tensor map [0, -1];",
                "target: device matrix [3]"},
               [&] {
                 const TargetTable target(source_of(records, stages({{{"w", kRows}}})),
                                          stages({{{"w", thirds}}}), options);
               });
  // One with a layout of its own.
  const StageLayouts both{{"w", kRows}, {"adam_m.w", kColumns}};
  expect_error(ErrorKind::kBadInput,
               {"'adam_m.w'", "source: device matrix [2], tensor map [-1, 0]"}, [&] {
                 const TargetTable target(source_of(records, stages({both})),
                                          stages({{{"adam_m.w", thirds}}}), options);
               });
}

TEST(TargetTable, ReplicatesOnlyWhereTheDestinationHasIt) {
  const std::map<std::int64_t, std::string> equal{{0, rows("w", "abcd") + rows("b", "same")},
                                                  {1, rows("w", "efgh") + rows("b", "same")}};
  const auto destination =
      stages({{{"w", kAlone}, {"b", kAlone}}, {{"w", kAlone}}, {{"w", kAlone}, {"b", kAlone}}});
  for (const Unmatched unmatched : {Unmatched::kReplicate, Unmatched::kSource}) {
    const TargetTable target(source_of(equal, stages({{{"w", kRows}}})), destination,
                             with(unmatched));
    EXPECT_THAT(contents(target, Rank(0)), ElementsAre("w=abcdefgh", "b=same"));
    EXPECT_THAT(contents(target, Rank(1)), ElementsAre("w=abcdefgh"));
    EXPECT_THAT(contents(target, Rank(2)), ElementsAre("w=abcdefgh", "b=same"));
  }
  const std::map<std::int64_t, std::string> differing{{0, rows("w", "abcd") + rows("b", "left")},
                                                      {1, rows("w", "efgh") + rows("b", "same")}};
  expect_error(ErrorKind::kBadInput, {"1 parameter (b)", "only one of the two"}, [&] {
    const TargetTable target(source_of(differing, stages({{{"w", kRows}}})), destination,
                             with(Unmatched::kReplicate));
  });
}

TEST(TargetTable, CopiesTheSliceOfTheSourceRankModuloItsDevices) {
  // Two source stages of two devices; raw is on both, and late on the second alone.
  std::map<std::int64_t, std::string> records;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const std::string own(4, static_cast<char>('0' + rank));
    records[rank] = rows(rank < 2 ? "w" : "v", own) + rows("raw", own);
    if (rank >= 2) records[rank] += rows("late", own);
    if (rank == 1) records[rank] += record("one", {2}, "Int16", "1111");
  }
  const auto source = source_of(records, stages({{{"w", kRows}}, {{"v", kRows}}}));
  const Layout four{.device_matrix = {4}, .tensor_map = {{}, {}}};
  const TargetTable target(source, stages({{{"w", four}, {"v", four}}}), with(Unmatched::kSource));
  const TargetParameter& raw = named(target, "raw");
  EXPECT_EQ(raw.treatment, Treatment::kRaw);
  for (const Rank rank : test::first_ranks(4)) {
    const bool even = rank.number() % 2 == 0;
    EXPECT_EQ(bytes_of(target, raw, rank), even ? "0000" : "1111");
    EXPECT_EQ(bytes_of(target, named(target, "late"), rank), even ? "2222" : "3333");
    EXPECT_EQ(target.slice_shape(raw, rank), (Shape{1, 4}));
    EXPECT_EQ(target.layout(raw, rank), nullptr);
  }
  // Equal on all ranks that hold it: it is every rank's.
  EXPECT_EQ(named(target, "one").treatment, Treatment::kKeep);
  EXPECT_EQ(bytes_of(target, named(target, "one"), Rank(0)), "1111");
}

TEST(TargetTable, ComparesWhatIsShortBeforeItCopiesSlices) {
  const auto treatment_of = [](std::int64_t bytes) {
    std::map<std::int64_t, std::string> records;
    for (const std::int64_t rank : {0, 1}) {
      records[rank] =
          rows("w", "abcd") +
          record("b", {bytes}, "UInt8", test::counting_bytes(static_cast<std::size_t>(bytes)));
    }
    const TargetTable target(source_of(records, stages({{{"w", kRows}}})), stages({{{"w", kRows}}}),
                             with(Unmatched::kSource));
    return named(target, "b").treatment;
  };
  EXPECT_EQ(treatment_of(1 << 20), Treatment::kKeep);
  EXPECT_EQ(treatment_of((1 << 20) + 1), Treatment::kRaw);
}

TEST(TargetTable, LacksASliceThatNoFileHas) {
  const std::string large = test::counting_bytes((1 << 20) + 1);
  const auto source =
      source_of({{0, rows("w", "abcd")},
                 {1, rows("w", "efgh") + record("b", {(1 << 20) + 1}, "UInt8", large)}},
                stages({{{"w", kRows}}}));
  const TargetTable target(source, stages({{{"w", kRows}}}), with(Unmatched::kSource));
  const TargetParameter& b = named(target, "b");
  EXPECT_FALSE(target.has(b, Rank(0)));
  EXPECT_TRUE(target.lacks(b, Rank(0)));
  EXPECT_TRUE(target.has(b, Rank(1)));
  EXPECT_FALSE(target.lacks(b, Rank(1)));
  EXPECT_FALSE(target.lacks(named(target, "w"), Rank(0)));
}

TEST(TargetTable, CopiesSlicesOfAStageThatIsReadAlone) {
  const auto source = std::make_shared<const SourceTable>(
      memory_set({{3, rows("w", "abcd") + rows("raw", "left")},
                  {4, rows("w", "efgh") + rows("raw", "same")},
                  {5, rows("w", "ijkl") + rows("raw", "rest")}}),
      Strategy({{{"w", Layout{.device_matrix = {3}, .tensor_map = {{0}, {}}}}}}, 1, false));
  const Layout three{.device_matrix = {3}, .tensor_map = {{}, {}}};
  const TargetTable target(source, stages({{{"w", three}}}), with(Unmatched::kSource));
  EXPECT_EQ(bytes_of(target, named(target, "raw"), Rank(0)), "left");
  EXPECT_EQ(bytes_of(target, named(target, "raw"), Rank(1)), "same");
  EXPECT_EQ(bytes_of(target, named(target, "raw"), Rank(2)), "rest");
}

TEST(TargetTable, RefusesTwoParametersOfOneName) {
  const test::TempDir dir;
  TargetOptions options;
  options.name_map = NameMap::load(dir.write("map.json", R"({"a": "c", "b": "c"})"));
  expect_error(ErrorKind::kBadInput, {"'c'", "'a' and 'b'", "--name-map"}, [&] {
    const TargetTable target(
        source_of({{0, rows("a", "abcd") + rows("x", "abcd") + rows("b", "abcd")}}, std::nullopt),
        std::nullopt, options);
  });
}

TEST(TargetTable, SaysNothingWhereNothingIsLeftOut) {
  const TargetTable target(
      source_of({{0, rows("w", "abcd")}, {1, rows("w", "efgh")}}, stages({{{"w", kRows}}})),
      stages({{{"w", kColumns}}}), {});
  EXPECT_THAT(target.warnings(), IsEmpty());
  EXPECT_THAT(target.notes(), IsEmpty());
}

}  // namespace
}  // namespace reshardfs::target_table_tests
