// SPDX-License-Identifier: Apache-2.0
#include "plan/source/cell_grid.h"

#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::memory_set;
using test::record;

/// Five files: cells 0 and 2 are in two and three of them, cell 1 is in none.
class CellGridTest : public ::testing::Test {
 protected:
  CellGridTest() {
    std::map<std::int64_t, std::string> records;
    for (std::int64_t rank = 0; rank < 5; ++rank) {
      // Rank 4 does not have w.
      records[rank] = record(rank == 4 ? "other" : "w", {1}, "Int8", "x");
    }
    set = memory_set(records);
    pattern->full_shape = {3};
    pattern->partitions = {AxisPartition::even(3, 3)};
    pattern->files = {file(0), nullptr, file(1)};
    pattern->replicas = {{0, file(2)}, {2, file(3)}, {2, file(4)}};
  }
  const RankFile* file(std::int64_t rank) const { return set->find(Rank(rank)); }
  const TensorEntry* entry(std::int64_t rank) const { return &file(rank)->index->entries()[0]; }
  /// The rank of a further file with the cell that is none of `broken`; -1: there is none.
  static std::int64_t replica(const CellGrid& grid, std::size_t cell,
                              const std::vector<std::int64_t>& broken = {}) {
    const Holding found = grid.replica(cell, [&](const RankFile& file) {
      return std::find(broken.begin(), broken.end(), file.rank.number()) == broken.end();
    });
    return found ? found.file->rank.number() : -1;
  }

  std::shared_ptr<const CheckpointSet> set;
  std::shared_ptr<CellPattern> pattern = std::make_shared<CellPattern>();
};

TEST_F(CellGridTest, KnowsWhichCellsHaveAFile) {
  const CellGrid grid(pattern, *entry(0));
  EXPECT_EQ(grid.cell_count(), 3U);
  EXPECT_EQ(grid.cell(0).file, file(0));
  EXPECT_FALSE(grid.cell(1));
  EXPECT_EQ(grid.cell(2).file, file(1));
  EXPECT_FALSE(grid.complete());
  pattern->files[1] = file(0);
  EXPECT_TRUE(grid.complete());
  pattern->files[2] = nullptr;
  EXPECT_FALSE(grid.complete());
  pattern->files = {nullptr, file(0), file(1)};
  EXPECT_FALSE(grid.complete());
}

TEST_F(CellGridTest, FindsTheReplicasOfACell) {
  const CellGrid grid(pattern, *entry(0));
  EXPECT_EQ(replica(grid, 0), 2);
  EXPECT_EQ(replica(grid, 0, {2}), -1);
  EXPECT_EQ(replica(grid, 1), -1);
  EXPECT_EQ(replica(grid, 2), 3);
  EXPECT_EQ(replica(grid, 2, {3}), 4);
  EXPECT_EQ(replica(grid, 2, {3, 4}), -1);
}

TEST_F(CellGridTest, FindsAReplicasOwnEntryWhereIndexesDiffer) {
  const CellGrid grid(pattern, {nullptr, nullptr, entry(1)});
  EXPECT_EQ(grid.name(), "w");  // of the first cell that has an entry
  const Holding found = grid.replica(2, [](const RankFile&) { return true; });
  EXPECT_EQ(found.file, file(3));
  EXPECT_EQ(found.entry, entry(3));
  EXPECT_EQ(replica(grid, 2, {3}), -1);  // rank 4 has no such parameter
}

TEST(SingleCellGrid, TakesWhatIsNoArrayAsBytes) {
  const auto set = memory_set({{0, record("s", {0}, "str", "text")}});
  const RankFile& file = set->files().front();
  const TensorEntry& entry = file.index->entries().front();
  EXPECT_EQ(array_shape(entry), (Shape{4}));
  const CellGridPtr grid = single_cell_grid(Holding{&file, &entry});
  EXPECT_EQ(grid->full_shape(), (Shape{4}));
  EXPECT_EQ(grid->cell_count(), 1U);
}

TEST(SingleCellGrid, OfSeveralFilesReadsTheFirstAndKnowsTheOthers) {
  // The parameter stands at another place in the file of rank 1.
  const auto set = memory_set({{0, record("w", {1}, "Int8", "x")},
                               {1, record("a", {1}, "Int8", "a") + record("w", {1}, "Int8", "x")}});
  Holders holders;
  for (const RankFile& file : set->files()) holders.add({&file, 1, file.index->find("w")});
  ASSERT_EQ(holders.rows().size(), 2U);
  const CellGridPtr grid = single_cell_grid(holders);
  EXPECT_EQ(grid->cell(0).file->rank, Rank(0));
  EXPECT_EQ(grid->pattern().replicas.size(), 1U);
  const Holding other = grid->replica(0, [](const RankFile&) { return true; });
  ASSERT_TRUE(other);
  EXPECT_EQ(other.file->rank, Rank(1));
  EXPECT_EQ(other.entry, set->find(Rank(1))->index->find("w"));
}

}  // namespace
}  // namespace reshardfs
