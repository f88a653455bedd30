// SPDX-License-Identifier: Apache-2.0
/// The tables of a set whose catalogue lists boxes, and what is done with these.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/replicas/settle_replicas.h"
#include "plan/source/recorded_strategy.h"
#include "plan/source/source_table.h"
#include "plan/target/target_table.h"
#include "plan/traffic/traffic.h"
#include "plan/traffic/traffic_survey.h"
#include "support/boxes.h"
#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace reshardfs::box_tables_tests {
namespace {

using test::box_set;
using test::expect_error;
using test::Piece;
using test::piece_file;
using test::pinwheel;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kAll = "abcdefghijkl";
const Shape kFull{3, 4};
const Layout kColumns{.device_matrix = {2}, .tensor_map = {{}, {0}}};

std::vector<Piece> joined(std::vector<Piece> a, const std::vector<Piece>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::shared_ptr<const SourceTable> table_of(std::vector<std::vector<Piece>> pieces,
                                            std::map<std::string, Shape> shapes) {
  std::vector<RankFile> files;
  for (const auto& list : pieces) {
    files.push_back(piece_file(static_cast<std::int64_t>(files.size()), list));
  }
  return std::make_shared<const SourceTable>(box_set(std::move(files), std::move(shapes)),
                                             std::nullopt);
}

/// `w` in two files.
std::shared_ptr<const SourceTable> two_files() {
  const std::vector<Piece> w = pinwheel("w");
  return table_of({{w[0], w[2], w[4]}, {w[3], w[1]}}, {{"w", kFull}});
}

std::string read(const ShownTensor& view) {
  std::vector<std::byte> out(view.size());
  read_checked([&](ReadBatch& batch) { view.read(0, out, batch); });
  return test::text_of(out);
}

Strategy columns_of(const std::vector<std::string>& names) {
  StageLayouts stage;
  for (const std::string& name : names) stage.try_emplace(name, kColumns);
  return Strategy({std::move(stage)}, 0, false);
}

TEST(BoxTables, HaveAGridButNoLayout) {
  const auto table = two_files();
  const SourceParameter& w = *table->find("w");
  ASSERT_TRUE(w.grid);
  EXPECT_EQ(w.layout, nullptr);
  EXPECT_EQ(w.grid->boxes()->size(), 5U);
  EXPECT_EQ(w.holders.size(), 5U);
  EXPECT_EQ(read(ShownTensor(w.grid)), kAll);
}

TEST(BoxTables, KeepTheOrderOfTheRanksWhereFilesShareAnIndex) {
  const Piece low{"w", DType::kUInt8, {{0}, {1}}, "a"};
  const Piece high{"w", DType::kUInt8, {{1}, {1}}, "b"};
  std::vector<RankFile> files{piece_file(0, {low, high}), piece_file(1, {low, high})};
  files[1].index = files[0].index;
  const SourceTable table(box_set(std::move(files), {{"w", {2}}}), std::nullopt);
  std::vector<std::int64_t> ranks;
  for (const Holding& holding : table.find("w")->holders) {
    ranks.push_back(holding.file->rank.number());
  }
  EXPECT_THAT(ranks, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(table.find("w")->grid->replica_count(), 2U);
}

TEST(BoxTables, NameTheParameterOfBoxesThatOverlap) {
  const Piece one{"w", DType::kUInt8, {{0}, {2}}, "ab"};
  const Piece other{"w", DType::kUInt8, {{1}, {2}}, "bc"};
  expect_error(ErrorKind::kBadInput,
               {"'w'", "[2] at [0]", "[2] at [1]", "rank_0", "rank_1", "bring all files"}, [&] {
                 table_of({{one}, {other}}, {{"w", {3}}});
               });
}

TEST(BoxTables, RefuseBoxesOfSeveralTypes) {
  const Piece one{"w", DType::kUInt8, {{0}, {2}}, "ab"};
  const Piece other{"w", DType::kInt8, {{2}, {1}}, "c"};
  expect_error(ErrorKind::kBadInput, {"'w'", "element type"}, [&] {
    table_of({{one}, {other}}, {{"w", {3}}});
  });
}

TEST(BoxTables, AreCutAsTheDestinationSays) {
  const TargetTable target(two_files(), columns_of({"w"}), {});
  const TargetParameter& w = target.parameters().front();
  EXPECT_EQ(read(target.view(w, Rank(0))), "abefij");
  EXPECT_EQ(read(target.view(w, Rank(1))), "cdghkl");
  const TargetTable whole(two_files(), std::nullopt, {});
  EXPECT_EQ(read(whole.view(whole.parameters().front(), Rank(0))), kAll);
}

TEST(BoxTables, SayHowManyBoxesTheDestinationDoesNotFit) {
  StageLayouts rows{{"w", {.device_matrix = {2}, .tensor_map = {{0}, {}}}}};
  expect_error(ErrorKind::kBadInput, {"'w'", "source: 5 boxes", "[3, 4]"},
               [&] { TargetTable(two_files(), Strategy({std::move(rows)}, 0, false), {}); });
}

/// `w` as two_files() has it, and `v` in one box; the destination knows `other` alone.
class UnmatchedBoxes : public ::testing::Test {
 protected:
  TargetTable place(Unmatched unmatched, const std::string& leave_out = "") const {
    TargetOptions options;
    options.unmatched = unmatched;
    if (!leave_out.empty()) options.names.exclude = {leave_out};
    return {source, columns_of({"other"}), options};
  }

  std::shared_ptr<const SourceTable> source =
      table_of({joined(pinwheel("w"), {{"other", DType::kUInt8, {{0, 0}, {1, 2}}, "xy"}}),
                {{"v", DType::kUInt8, {{0}, {2}}, "vw"}}},
               {{"w", kFull}, {"other", {1, 2}}, {"v", {2}}});
};

TEST_F(UnmatchedBoxes, AreDropped) {
  const TargetTable target = place(Unmatched::kDrop);
  EXPECT_EQ(target.parameters().size(), 1U);
  EXPECT_THAT(target.warnings(), ElementsAre(HasSubstr("left out: 2 parameters")));
}

TEST_F(UnmatchedBoxes, AreReplicated) {
  const TargetTable target = place(Unmatched::kReplicate);
  ASSERT_EQ(target.parameters().size(), 3U);
  EXPECT_EQ(read(target.view(target.parameters()[0], Rank(1))), kAll);
}

TEST_F(UnmatchedBoxes, AreNoSlicesOfSourceRanks) {
  expect_error(ErrorKind::kUnsupported, {"'w'", "boxes", "--unmatched replicate"},
               [&] { place(Unmatched::kSource); });
  // One box is the whole.
  const TargetTable target = place(Unmatched::kSource, "w");
  ASSERT_EQ(target.parameters().size(), 2U);
  EXPECT_EQ(target.parameters()[1].treatment, Treatment::kKeep);
  EXPECT_EQ(read(target.view(target.parameters()[1], Rank(0))), "vw");
}

TEST(BoxTables, LayNothingOutLikeSomethingElse) {
  const auto source =
      table_of({joined(pinwheel("w"), {{"adam_m.w", DType::kUInt8, {{0, 0}, {3, 4}}, kAll}})},
               {{"w", kFull}});
  EXPECT_FALSE(source->grid_like(*source->find("adam_m.w"), *source->find("w")));
}

TEST(BoxTables, AreNoStrategy) {
  expect_error(ErrorKind::kUnsupported, {"'w'", "its 5 parts lie", ".toml"},
               [] { recorded_strategy(*two_files(), OptimizerCut::kAsRecorded); });
}

TEST(BoxTables, AreReadFromEachFileOnce) {
  const TargetTable target(two_files(), columns_of({"w"}), {});
  const std::vector<SourceTraffic> traffic = traffic_of(target, Rank(0));
  ASSERT_EQ(traffic.size(), 2U);
  EXPECT_EQ(traffic[0].bytes, 4U);  // "ab", "f" and "j"
  EXPECT_EQ(traffic[1].bytes, 2U);  // "ei"
}

TEST(BoxTables, AreOfOneKindWhereTheyAreReadAlike) {
  const std::vector<Piece> w = pinwheel("w");
  const std::vector<Piece> v = pinwheel("v");
  const std::vector<Piece> x = pinwheel("x");
  const auto source = table_of({{w[0], w[1], w[2], v[0], v[1], v[2], x[0], x[1], x[2], x[3]},
                                {w[3], w[4], v[3], v[4], x[4]}},
                               {{"v", kFull}, {"w", kFull}, {"x", kFull}});
  const TargetTable target(source, columns_of({"v", "w", "x"}), {});
  const TrafficSurvey survey = survey_traffic(target, test::ranks({0, 1}), 8);
  ASSERT_EQ(survey.kinds.size(), 2U);
  EXPECT_EQ(survey.kinds[0].count, 2U);
  EXPECT_EQ(survey.total_bytes, 3 * kAll.size());
  EXPECT_THAT(survey.kinds[0].source_ranks, ElementsAreArray(test::ranks({0, 1})));
  EXPECT_THAT(survey.destination_bytes, ElementsAre(18, 18));
}

/// Rank 0 has all boxes of `w`, rank 1 two of them again, one of these with another content.
class BoxReplicas : public ::testing::Test {
 protected:
  static std::vector<Piece> copies() {
    std::vector<Piece> w = pinwheel("w");
    w[1].bytes = "DH";
    return {w[0], w[1]};
  }
  std::shared_ptr<const SourceTable> source = table_of({pinwheel("w"), copies()}, {{"w", kFull}});
  TargetTable target{source, columns_of({"w"}), {}};
  std::vector<Rank> ranks = test::ranks({0, 1});
};

TEST_F(BoxReplicas, AreComparedBoxByBox) {
  const SourceParameter& w = *source->find("w");
  const ReplicaFindings found = check_replicas(*source, {{&w, w.grid}});
  ASSERT_EQ(found.differing.size(), 1U);
  EXPECT_EQ(found.differing[0].one.entry->shape, (Shape{2, 1}));
  EXPECT_EQ(found.differing[0].other.file->rank, Rank(1));
  expect_error(ErrorKind::kBadInput, {"'w'", "rank 0 and rank 1"}, [&] {
    settle_replicas({target, nullptr, ranks}, Replicas::kSame);
  });
}

TEST_F(BoxReplicas, OfTheLowestRankCountIfTheUserSaysSo) {
  const SettledReplicas settled = settle_replicas({target, nullptr, ranks}, Replicas::kFirst);
  EXPECT_EQ(settled.warnings.size(), 1U);
  EXPECT_EQ(read(target.view(target.parameters().front(), Rank(1))), "cdghkl");
}

TEST_F(BoxReplicas, AreARanksOwnWhereItHasJustThisBox) {
  const std::vector<Piece> list{{"w", DType::kUInt8, {{0}, {2}}, "ab"},
                                {"w", DType::kUInt8, {{2}, {2}}, "cd"}};
  const auto other = table_of(
      {list, {{"w", DType::kUInt8, {{2}, {2}}, "CD"}, {"w", DType::kUInt8, {{0}, {2}}, "AB"}}},
      {{"w", {4}}});
  StageLayouts halves{{"w", {.device_matrix = {2}, .tensor_map = {{0}}}}};
  TargetOptions options;
  options.replicas = Replicas::kOwn;
  TargetTable own(other, Strategy({std::move(halves)}, 0, false), options);
  EXPECT_THAT(settle_replicas({own, nullptr, ranks}, Replicas::kOwn).warnings, IsEmpty());
  EXPECT_EQ(read(own.view(own.parameters().front(), Rank(0))), "ab");
  EXPECT_EQ(read(own.view(own.parameters().front(), Rank(1))), "CD");
}

}  // namespace
}  // namespace reshardfs::box_tables_tests
