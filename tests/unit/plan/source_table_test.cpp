// SPDX-License-Identifier: Apache-2.0
#include "plan/source/source_table.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/target/shown_tensor.h"
#include "support/checkpoint.h"
#include "support/errors.h"
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

std::vector<std::int64_t> ranks_of(const Holders& holders) {
  std::vector<std::int64_t> ranks;
  for (const Holding& holding : holders) ranks.push_back(holding.file->rank.number());
  return ranks;
}

/// The whole parameter.
std::string content(const SourceTable& table, const std::string& name) {
  const ShownTensor view(table.find(name)->grid);
  std::vector<std::byte> out(view.size());
  ReadBatch batch;
  view.read(0, out, batch);
  return test::text_of(out);
}

/// As a checkpoint's files are opened: those that list the same at the same places share an index.
std::shared_ptr<const CheckpointSet> set_with_one_index(
    const std::map<std::int64_t, std::string>& records) {
  std::vector<RankFile> files;
  for (const auto& [rank, bytes] : records) {
    files.push_back(test::rank_file(
        rank, std::make_shared<test::MemorySource>(bytes, "rank_" + std::to_string(rank))));
    files.back().index = files.front().index;
  }
  return std::make_shared<const CheckpointSet>(std::move(files));
}

/// A set of parameters whose bytes nobody reads.
std::shared_ptr<const CheckpointSet> set_of_entries(const std::vector<std::int64_t>& ranks,
                                                    const std::vector<TensorEntry>& entries) {
  std::vector<RankFile> files;
  for (const std::int64_t rank : ranks) {
    RankFile file;
    file.rank = Rank(rank);
    file.path = "set/rank_" + std::to_string(rank) + "/a.ckpt";
    file.source = std::make_shared<test::MemorySource>("", file.path.string());
    file.index = files.empty() ? std::make_shared<const FileIndex>(entries) : files.front().index;
    files.push_back(std::move(file));
  }
  return std::make_shared<const CheckpointSet>(std::move(files));
}

TensorEntry entry_of(const std::string& name, DType dtype, const Shape& shape) {
  TensorEntry entry;
  entry.name = name;
  entry.dtype = dtype;
  entry.shape = shape;
  return entry;
}

TEST(SourceTable, FindsParametersByNameInWhateverOrderTheyAre) {
  std::string records;
  for (const char* name : {"m", "c", "z", "a"}) records += rows(name, "abcd");
  const SourceTable table(memory_set({{0, records}}), std::nullopt);
  for (const char* name : {"m", "c", "z", "a"}) {
    ASSERT_NE(table.find(name), nullptr);
    EXPECT_EQ(table.find(name)->name, name);
  }
  for (const char* name : {"", "b", "zz"}) EXPECT_EQ(table.find(name), nullptr);
}

TEST(SourceTable, IsOneStageOfOneDeviceWithoutAStrategy) {
  const auto set = memory_set({{3, rows("w", "abcd")}, {5, rows("w", "abcd")}});
  const SourceTable table(set, std::nullopt);
  EXPECT_EQ(table.ranks().stages(), 1);
  EXPECT_EQ(table.ranks().devices(), 1);
  EXPECT_EQ(table.ranks().all(), RankRange(Rank(3), 1));
  const SourceTable staged(memory_set({{0, rows("w", "abcd")}, {1, rows("w", "efgh")}}),
                           Strategy({{{"w", kRows}}, {{"x", kRows}}, {{"y", kRows}}}, 0, true));
  EXPECT_EQ(staged.ranks().stages(), 3);
  EXPECT_EQ(staged.ranks().devices(), 2);
}

TEST(SourceTable, KnowsWhichFilesHoldAParameterHoweverTheyAreOrdered) {
  const auto set = memory_set({{0, rows("a", "0000") + rows("b", "1111") + rows("c", "2222")},
                               {1, rows("c", "2222") + rows("a", "0000")},
                               {2, rows("b", "1111") + rows("d", "3333")}});
  const SourceTable table(set, std::nullopt);
  EXPECT_EQ(table.parameters().size(), 4U);
  EXPECT_THAT(ranks_of(table.find("a")->holders), ElementsAre(0, 1));
  EXPECT_THAT(ranks_of(table.find("b")->holders), ElementsAre(0, 2));
  EXPECT_THAT(ranks_of(table.find("c")->holders), ElementsAre(0, 1));
  EXPECT_THAT(ranks_of(table.find("d")->holders), ElementsAre(2));
  for (const SourceParameter& parameter : table.parameters()) {
    for (const Holding& holding : parameter.holders) {
      EXPECT_EQ(holding.entry, holding.file->index->find(parameter.name));
    }
  }
}

TEST(SourceTable, KeepsFilesWithOneIndexAsOneRun) {
  const std::string records = rows("a", "0000") + rows("b", "1111");
  const SourceTable table(set_with_one_index({{0, records}, {1, records}, {2, records}}),
                          std::nullopt);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(table.find(name)->holders.rows().size(), 1U);
    EXPECT_THAT(ranks_of(table.find(name)->holders), ElementsAre(0, 1, 2));
  }
}

TEST(SourceTable, TakesOneStageOfManyWhereAnyOfItsRanksIs) {
  const auto base_rank = [](const std::vector<std::int64_t>& ranks, std::int64_t stage,
                            const Layout& layout) {
    std::map<std::int64_t, std::string> records;
    for (const std::int64_t rank : ranks) records[rank] = rows("w", "abcd");
    return SourceTable(memory_set(records), Strategy({{{"w", layout}}}, stage, false))
        .ranks()
        .all()
        .first()
        .number();
  };
  const Layout one{.device_matrix = {1}, .tensor_map = {{}, {}}};
  EXPECT_EQ(base_rank({3}, 1, kRows), 2);
  EXPECT_EQ(base_rank({2}, 1, kRows), 2);
  EXPECT_EQ(base_rank({1}, 1, kRows), 0);
  EXPECT_EQ(base_rank({1}, 1, one), 1);
  EXPECT_EQ(base_rank({6, 7}, 3, kRows), 6);
  // The other stages' files are there too, and do not matter.
  EXPECT_EQ(base_rank({0, 1, 2, 3}, 1, kRows), 2);
  EXPECT_EQ(base_rank({0, 1, 2, 3, 4, 5}, 1, kRows), 2);
  // Ranks before and behind the stage alone are none of it.
  expect_error(ErrorKind::kBadInput, {"also has rank 4"}, [&] { base_rank({0, 1, 4}, 1, kRows); });
}

TEST(SourceTable, NamesEveryRankThatTheStrategyDoesNotHaveOnce) {
  const std::string w = rows("w", "abcd");
  const auto set =
      test::segmented_set({{0, {w}}, {1, {w}}, {2, {w}}, {5, {w, rows("v", "abcd")}}, {7, {w}}});
  expect_error(ErrorKind::kBadInput,
               {"for 2 ranks (1 stage of 2 devices)", "also has rank 2,5,7;", "set/rank_0: "}, [&] {
                 const SourceTable table(set, Strategy({{{"w", kRows}}}, 0, false));
               });
}

TEST(SourceTable, RefusesAParameterInAnotherStageThanTheStrategySays) {
  const Layout one{.device_matrix = {1}, .tensor_map = {{}, {}}};
  expect_error(
      ErrorKind::kBadInput, {"'w'", "another pipeline stage than that of rank 0,", "rank_0"}, [&] {
        const SourceTable table(memory_set({{0, rows("w", "abcd")}, {1, rows("v", "abcd")}}),
                                Strategy({{{"v", one}}, {{"w", one}}}, 0, true));
      });
}

TEST(SourceTable, ReadsEachStageFromItsOwnRanks) {
  // a is of the first stage's ranks, b of the second's; files that share an index list both.
  std::map<std::int64_t, std::string> records;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const std::string digits(4, static_cast<char>('0' + rank));
    records[rank] = rows("a", digits) + rows("b", digits) + rows("c", digits) + rows("d", digits) +
                    record("e", {4, 1}, "Int8", digits);
  }
  const StageLayouts first{{"a", kRows}, {"c", kWhole}, {"d", kRows}, {"e", kRows}};
  const SourceTable table(set_with_one_index(records), Strategy({first, {{"b", kRows}}}, 0, true));
  EXPECT_EQ(content(table, "a"), "00001111");
  EXPECT_EQ(content(table, "b"), "22223333");
  EXPECT_EQ(content(table, "c"), "0000");
  EXPECT_EQ(content(table, "e"), "00001111");
  EXPECT_EQ(table.find("e")->grid->full_shape(), (Shape{8, 1}));
  // What is laid out alike shares how it is.
  EXPECT_EQ(&table.find("a")->grid->pattern(), &table.find("d")->grid->pattern());
  EXPECT_NE(&table.find("a")->grid->pattern(), &table.find("b")->grid->pattern());
  EXPECT_EQ(table.find("d")->grid->name(), "d");
}

TEST(SourceTable, CountsTheRanksOfALaterStageFromItsFirst) {
  std::map<std::int64_t, std::string> records;
  for (std::int64_t rank = 0; rank < 6; ++rank) {
    const std::string name(1, static_cast<char>('a' + rank / 2));
    records[rank] = rows(name, std::string(4, static_cast<char>('0' + rank)));
  }
  const SourceTable table(memory_set(records),
                          Strategy({{{"a", kRows}}, {{"b", kRows}}, {{"c", kRows}}}, 0, true));
  EXPECT_EQ(content(table, "a"), "00001111");
  EXPECT_EQ(content(table, "b"), "22223333");
  EXPECT_EQ(content(table, "c"), "44445555");
}

TEST(SourceTable, ReadsFromTheLowestReplicaAndKnowsTheOthersByCell) {
  const Layout layout{.device_matrix = {3, 2}, .tensor_map = {{0}}};
  for (const std::int64_t missing : {-1, 0, 5}) {
    std::map<std::int64_t, std::string> records;
    for (std::int64_t rank = 0; rank < 6; ++rank) {
      if (rank != missing) records[rank] = record("w", {1}, "Int8", rank % 2 == 0 ? "a" : "b");
    }
    const SourceTable table(memory_set(records), Strategy({{{"w", layout}}}, 0, false));
    EXPECT_EQ(content(table, "w"), "ab");
    const CellGrid& grid = *table.find("w")->grid;
    for (const std::int64_t cell : {0, 1}) {
      std::vector<std::int64_t> expected;
      for (std::int64_t rank = cell; rank < 6; rank += 2) {
        if (rank != missing) expected.push_back(rank);
      }
      EXPECT_EQ(grid.cell(static_cast<std::size_t>(cell)).file->rank, Rank(expected.front()));
      // Each is found when those before it are of no use.
      for (std::size_t i = 1; i < expected.size(); ++i) {
        const Holding found =
            grid.replica(static_cast<std::size_t>(cell),
                         [&](const RankFile& file) { return file.rank >= Rank(expected[i]); });
        ASSERT_TRUE(found);
        EXPECT_EQ(found.file->rank, Rank(expected[i]));
      }
    }
  }
}

TEST(SourceTable, SaysWhichSliceHasAnotherShapeThanTheLayoutWants) {
  Layout uneven = kRows;
  uneven.uneven = {{false, {1, 2}}, {}};
  expect_error(
      ErrorKind::kBadInput,
      {"'w'", "the slice of rank 1 should have the shape [2, 4]", "ranks 0,1: Int8 [1, 4]"}, [&] {
        const SourceTable table(memory_set({{0, rows("w", "abcd")}, {1, rows("w", "efgh")}}),
                                Strategy({{{"w", uneven}}}, 0, false));
      });
}

TEST(SourceTable, RefusesTensorsWhoseBytesCannotBeCounted) {
  const std::vector<TensorEntry> entries{entry_of("a", DType::kInt8, {1LL << 60, 1}),
                                         entry_of("b", DType::kFloat32, {1LL << 60, 1})};
  // 2^61 bytes can be, 2^63 cannot.
  expect_error(ErrorKind::kBadInput, {"'b'", "64-bit"}, [&] {
    const SourceTable table(set_of_entries({0, 1}, entries),
                            Strategy({{{"a", kRows}, {"b", kRows}}}, 0, false));
  });
  expect_error(ErrorKind::kBadInput, {"'c'", "64-bit"}, [&] {
    const SourceTable table(set_of_entries({0}, {entry_of("c", DType::kFloat64, {1LL << 60, 1})}),
                            std::nullopt);
  });
}

TEST(SourceTable, RefusesReplicasOfOtherShapesWithoutAStrategy) {
  expect_error(ErrorKind::kBadInput,
               {"'w'", "its shape differs", "rank 0: Int8 [1, 4]; rank 2: Int8 [4, 1]", "rank_2"},
               [] {
                 const SourceTable table(
                     memory_set({{0, rows("w", "abcd")}, {2, record("w", {4, 1}, "Int8", "abcd")}}),
                     std::nullopt);
               });
}

TEST(SourceTable, JoinsSlicesAlongTheFirstDimensionWhereAsked) {
  const auto set = memory_set({{0, record("e.x", {1, 2}, "Int8", "ab") + rows("w", "wwww")},
                               {1, record("e.x", {3, 2}, "Int8", "cdefgh") + rows("w", "wwww")},
                               {2, record("e.x", {2, 2}, "Int8", "ijkl") + rows("w", "wwww")}});
  const SourceTable table(set, std::nullopt, {"e.*"});
  EXPECT_EQ(content(table, "e.x"), "abcdefghijkl");
  EXPECT_EQ(table.find("e.x")->grid->full_shape(), (Shape{6, 2}));
  EXPECT_EQ(content(table, "w"), "wwww");
  ASSERT_NE(table.find("w")->layout, nullptr);
  EXPECT_EQ(table.find("w")->layout->device_matrix, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(table.find("w")->layout->tensor_map.size(), 2U);
}

TEST(SourceTable, JoinsNothingThatAStrategyLaysOut) {
  const Layout thirds{.device_matrix = {3}, .tensor_map = {{}, {}}};
  expect_error(ErrorKind::kUsage, {"--src-join", "leave", "--src-strategy out"}, [&] {
    const SourceTable table(
        memory_set({{0, rows("w", "abcd")}, {1, rows("w", "abcd")}, {2, rows("w", "abcd")}}),
        Strategy({{{"w", thirds}}}, 0, false), {"w"});
  });
}

TEST(SourceTable, RefusesToJoinWhatIsNoSliceOnEachRank) {
  expect_error(ErrorKind::kBadInput, {"'s'", "a scalar cannot be joined", "rank_0"}, [] {
    const SourceTable table(memory_set({{0, record("s", {}, "Int8", "s")}}), std::nullopt, {"s"});
  });
  expect_error(ErrorKind::kMissing, {"'e'", "joined from 3 ranks, but 2 have"}, [] {
    const SourceTable table(
        memory_set({{0, rows("e", "abcd")}, {1, rows("w", "abcd")}, {2, rows("e", "efgh")}}),
        std::nullopt, {"e"});
  });
}

TEST(SourceTable, RefusesToJoinRanksThatDoNotBeginAt0OrLackOne) {
  const auto join = [](const std::map<std::int64_t, std::string>& records) {
    const SourceTable table(memory_set(records), std::nullopt, {"e"});
  };
  expect_error(ErrorKind::kMissing,
               {"'e'", "joined from 2 ranks, but 1 have", "rank 0 has no file"}, [&] {
                 join({{1, rows("e", "abcd")}});
               });
  expect_error(ErrorKind::kMissing, {"joined from 4 ranks, but 2 have", "ranks 0,1 have no file"},
               [&] {
                 join({{2, rows("e", "abcd")}, {3, rows("e", "abcd")}});
               });
  expect_error(ErrorKind::kMissing, {"joined from 3 ranks, but 2 have", "rank 1 has no file"}, [&] {
    join({{0, rows("e", "abcd")}, {2, rows("e", "abcd")}});
  });
}

TEST(SourceTable, SaysThatNothingStatesHowManyRanksAreJoined) {
  const SourceTable table(memory_set({{0, rows("e", "abcd")}, {1, rows("e", "efgh")}}),
                          std::nullopt, {"e"});
  const std::vector<std::string> warnings = table.catalogue().warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(
      warnings[0].find("unknown whether the tensors joined from 2 ranks are whole: 'e' [2, 4]"),
      std::string::npos)
      << warnings[0];
  const SourceTable whole(memory_set({{0, rows("e", "abcd")}}), std::nullopt);
  EXPECT_TRUE(whole.catalogue().warnings().empty());
}

TEST(SourceTable, RefusesFewerJoinedRowsThanAWholeTensorHas) {
  const auto join = [](const std::string& bias) {
    const auto set =
        memory_set({{0, rows("w.weight", "abcd") + bias}, {1, rows("w.weight", "efgh") + bias}});
    return SourceTable(set, std::nullopt, {"w.weight"}).catalogue().warnings();
  };
  EXPECT_TRUE(join(record("w.bias", {2}, "Int8", "xy")).empty());
  expect_error(ErrorKind::kMissing, {"'w.weight'", "has 2 rows in 2 ranks, but 'w.bias' has 3"},
               [&] { join(record("w.bias", {3}, "Int8", "xyz")); });
}

TEST(SourceTable, RefusesMapsThatTheStrategyCuts) {
  const std::vector<TensorEntry> map{entry_of("m", DType::kMap, {})};
  const auto open = [&](const std::optional<Layout>& layout) {
    std::optional<Strategy> strategy;
    if (layout) strategy.emplace(std::vector<StageLayouts>{{{"m", *layout}}}, 0, false);
    const SourceTable table(set_of_entries({0, 1}, map), strategy);
  };
  EXPECT_NO_THROW(open(std::nullopt));
  EXPECT_NO_THROW(open(kWhole));
  EXPECT_NO_THROW(open(Layout{.device_matrix = {2}}));
  Layout optimizer = kWhole;
  optimizer.optimizer_shard_size = 1;
  const Layout columns{.device_matrix = {2}, .tensor_map = {{}, {0}}};
  const Layout one_dimension{.device_matrix = {2}, .tensor_map = {{0}}};
  for (const Layout& layout : {kRows, columns, one_dimension, optimizer}) {
    expect_error(ErrorKind::kUnsupported, {"'m'", "maptensor", "rank_0", "--exclude"},
                 [&] { open(layout); });
  }
}

/// Text, which has no layout.
std::string text(const std::string& name, const std::string& content) {
  return record(name, {0}, "str", content);
}

TEST(SourceTable, ComparesRanksWithinEachStage) {
  const std::vector<StageLayouts> stages{{{"a", kRows}}, {{"b", kRows}}};
  const auto set = memory_set({{0, text("s", "same") + text("t", "same") + text("u", "left")},
                               {1, text("s", "same") + text("t", "same") + text("u", "left")},
                               {2, text("s", "same") + text("t", "left") + text("u", "same")},
                               {3, text("s", "same") + text("t", "same") + text("u", "same")}});
  const SourceTable table(set, Strategy(stages, 0, true));
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("s")));
  EXPECT_FALSE(table.equal_on_all_ranks(*table.find("t")));
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("u")));
  EXPECT_THAT(ranks_of(table.compared_holders(*table.find("u"))), ElementsAre(0, 1));
}

TEST(SourceTable, ComparesTheRanksOfAStageThatIsReadAlone) {
  const auto set = memory_set({{2, text("s", "same")}, {3, text("s", "same")}});
  const SourceTable table(set, Strategy({{{"a", kRows}}}, 1, false));
  EXPECT_EQ(table.ranks().all(), RankRange(Rank(2), 2));
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("s")));
  EXPECT_THAT(ranks_of(table.compared_holders(*table.find("s"))), ElementsAre(2, 3));
}

TEST(SourceTable, ComparesTheRanksOfEachStageBesideOneThatIsReadAlone) {
  const auto set = memory_set({{0, text("s", "same") + text("t", "same")},
                               {1, text("s", "same") + text("t", "left")},
                               {2, text("s", "left")},
                               {3, text("s", "left")},
                               {5, text("s", "more")}});
  const SourceTable table(set, Strategy({{{"a", kRows}}}, 1, false));
  EXPECT_EQ(table.ranks().all(), RankRange(Rank(2), 2));
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("s")));
  EXPECT_THAT(ranks_of(table.compared_holders(*table.find("s"))), ElementsAre(0, 1));
  EXPECT_FALSE(table.equal_on_all_ranks(*table.find("t")));
}

TEST(SourceTable, ComparesAllRanksWithoutAStrategy) {
  const auto set = memory_set({{4, text("s", "same") + text("t", "same")},
                               {5, text("s", "same") + text("t", "left")},
                               {7, text("s", "same") + text("t", "same")}});
  const SourceTable table(set, std::nullopt);
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("s")));
  EXPECT_FALSE(table.equal_on_all_ranks(*table.find("t")));
  EXPECT_THAT(ranks_of(table.compared_holders(*table.find("s"))), ElementsAre(4, 5, 7));
}

TEST(SourceTable, ComparesTheRanksOnce) {
  std::vector<RankFile> files;
  for (const std::int64_t rank : {0, 1}) {
    files.push_back(
        test::rank_file(rank, std::make_shared<test::MemorySource>(text("s", "same"), "memory")));
  }
  const auto counting = std::make_shared<test::CountingSource>(files[1].source);
  files[1].source = counting;
  const SourceTable table(std::make_shared<const CheckpointSet>(std::move(files)), std::nullopt);
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("s")));
  const std::uint64_t reads = counting->reads();
  EXPECT_GT(reads, 0U);
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("s")));
  EXPECT_EQ(counting->reads(), reads);
}

TEST(SourceTable, ComparesAgainWhatCouldNotBeRead) {
  std::vector<RankFile> files;
  for (const std::int64_t rank : {0, 1}) {
    files.push_back(
        test::rank_file(rank, std::make_shared<test::MemorySource>(text("s", "same"), "memory")));
  }
  files[1].source = std::make_shared<test::FaultSource>(files[1].source, 1, EIO);
  const SourceTable table(std::make_shared<const CheckpointSet>(std::move(files)), std::nullopt);
  expect_error(ErrorKind::kIo, {"memory"}, [&] { table.equal_on_all_ranks(*table.find("s")); });
  EXPECT_TRUE(table.equal_on_all_ranks(*table.find("s")));
}

TEST(SourceTable, LetsShapesOfWhatIsNotTakenDiffer) {
  const auto set = memory_set({{0, rows("w", "abcd")}, {2, record("w", {4, 1}, "Int8", "abcd")}});
  const SourceTable table(set, std::nullopt, {}, [](const std::string&) { return false; });
  EXPECT_EQ(table.find("w")->grid, nullptr);
}

/// Whether "state" can be laid out like "w".
bool is_like(const std::shared_ptr<const CheckpointSet>& set) {
  const SourceTable table(set, Strategy({{{"w", kRows}}}, 0, false));
  const CellGridPtr grid = table.grid_like(*table.find("state"), *table.find("w"));
  if (grid != nullptr) {
    EXPECT_EQ(grid->name(), "state");
    EXPECT_EQ(grid->full_shape(), table.find("w")->grid->full_shape());
  }
  return grid != nullptr;
}

TEST(GridLike, NeedsSlicesOfTheSameShapeInEveryFile) {
  const std::string both = rows("w", "abcd") + rows("state", "ABCD");
  const std::string other = rows("w", "abcd") + record("state", {4, 1}, "Int8", "ABCD");
  EXPECT_TRUE(is_like(memory_set({{0, both}, {1, both}})));
  EXPECT_TRUE(is_like(set_with_one_index({{0, both}, {1, both}})));
  EXPECT_FALSE(is_like(memory_set({{0, both}, {1, other}})));
  EXPECT_FALSE(is_like(memory_set({{0, other}, {1, both}})));
  EXPECT_FALSE(is_like(set_with_one_index({{0, other}, {1, other}})));
  EXPECT_FALSE(is_like(memory_set({{0, both}, {1, rows("state", "ABCD")}})));
}

TEST(GridLike, FindsTheWeightInAnotherPartOfTheRank) {
  const auto parts_of = [](const std::vector<std::string>& first,
                           const std::vector<std::string>& second) {
    return test::segmented_set({{0, first}, {1, second}});
  };
  const std::string w = rows("w", "abcd");
  const std::string state = rows("state", "ABCD");
  EXPECT_TRUE(is_like(parts_of({w, state}, {w, state})));
  EXPECT_TRUE(is_like(parts_of({state, w}, {state, rows("v", "abcd"), w})));
  EXPECT_FALSE(is_like(parts_of({w, state}, {w, record("state", {4, 1}, "Int8", "ABCD")})));
}

TEST(GridLike, LooksForTheWeightOnEachRankThatSharesAnIndex) {
  // The last part of rank 0 and the first of rank 1 stand side by side, and list the same.
  const auto with_last = [](const std::string& last) {
    std::vector<RankFile> files;
    const auto add = [&](std::int64_t rank, std::int64_t part, const std::string& bytes) {
      files.push_back(test::rank_file(rank, std::make_shared<test::MemorySource>(bytes, "file")));
      files.back().part = part;
    };
    add(0, 0, rows("w", "abcd"));
    add(0, 1, rows("state", "ABCD"));
    add(1, 0, rows("state", "EFGH"));
    add(1, 1, last);
    files[2].index = files[1].index;
    return std::make_shared<const CheckpointSet>(std::move(files));
  };
  EXPECT_TRUE(is_like(with_last(rows("w", "efgh"))));
  EXPECT_FALSE(is_like(with_last(rows("other", "efgh"))));
}

TEST(GridLike, IsNotForTextThatLooksLikeAScalar) {
  const std::vector<TensorEntry> entries{entry_of("w", DType::kInt8, {}),
                                         entry_of("s", DType::kString, {})};
  const SourceTable table(set_of_entries({0, 1}, entries),
                          Strategy({{{"w", Layout{.device_matrix = {2}}}}}, 0, false));
  ASSERT_NE(table.find("w")->grid, nullptr);
  EXPECT_EQ(table.grid_like(*table.find("s"), *table.find("w")), nullptr);
}

TEST(GridLike, IsForArraysAndWeightsWithALayout) {
  const std::string records =
      rows("w", "abcd") + rows("state", "ABCD") + rows("free", "abcd") + text("s", "text");
  const auto set = memory_set({{0, records}, {1, records}});
  const SourceTable table(set, Strategy({{{"w", kRows}}}, 0, false));
  EXPECT_NE(table.grid_like(*table.find("state"), *table.find("w")), nullptr);
  EXPECT_EQ(table.grid_like(*table.find("state"), *table.find("free")), nullptr);
  EXPECT_EQ(table.grid_like(*table.find("s"), *table.find("w")), nullptr);
  const SourceTable without(set, std::nullopt);
  EXPECT_EQ(without.grid_like(*without.find("state"), *without.find("w")), nullptr);
}

}  // namespace
}  // namespace reshardfs
