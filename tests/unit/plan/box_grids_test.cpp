// SPDX-License-Identifier: Apache-2.0
#include "plan/source/box_grids.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/reading/byte_ranges.h"
#include "plan/target/shown_tensor.h"
#include "support/boxes.h"
#include "support/checkpoint.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::Piece;
using test::piece_file;
using ::testing::ElementsAre;

/// Of a tensor of bytes with three columns, the bytes of a box.
std::string content(const Box& box) {
  std::string out;
  for (std::int64_t r = 0; r < box.sizes[0]; ++r) {
    for (std::int64_t c = 0; c < box.sizes[1]; ++c) {
      out += static_cast<char>('a' + (box.offsets[0] + r) * 3 + box.offsets[1] + c);
    }
  }
  return out;
}

Piece piece(const Box& box) {
  return {"w", DType::kUInt8, box, content(box)};
}

const Box kTop{{0, 0}, {1, 2}};
const Box kRight{{0, 2}, {2, 1}};
const Box kBottom{{2, 1}, {1, 2}};
const Box kLeft{{1, 0}, {2, 1}};
const Box kCentre{{1, 1}, {1, 1}};

class BoxGridsTest : public ::testing::Test {
 protected:
  /// @param pieces those of each rank's file.
  CellGridPtr make(const std::vector<std::vector<Piece>>& pieces, const Shape& full = {3, 3}) {
    for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
      files.push_back(piece_file(static_cast<std::int64_t>(rank), pieces[rank]));
    }
    return grids.make(boxes_of_entries(holders(), full), files.front().index->entries().front());
  }

  Holders holders() const {
    Holders list;
    for (const RankFile& file : files) {
      for (const TensorEntry& entry : file.index->entries()) list.add({&file, 1, &entry});
    }
    return list;
  }

  static std::string read(const CellGridPtr& grid) {
    std::string text;
    read_checked([&](ReadBatch& batch) {
      std::vector<std::byte> out(ShownTensor(grid).size());
      ShownTensor(grid).read(0, out, batch);
      text = test::text_of(out);
    });
    return text;
  }

  std::vector<RankFile> files;
  BoxGrids grids;
};

TEST_F(BoxGridsTest, MakesAWholeOfWhatNoCutParts) {
  const CellGridPtr grid =
      make({{piece(kRight), piece(kTop)}, {piece(kBottom)}, {piece(kLeft), piece(kCentre)}});
  EXPECT_TRUE(grid->complete());
  EXPECT_EQ(grid->cell_count(), 5U);
  EXPECT_EQ(grid->replica_count(), 0U);
  EXPECT_EQ(grid->name(), "w");
  EXPECT_EQ(grid->dtype(), DType::kUInt8);
  EXPECT_EQ(boxes_text(*grid), "5 boxes");
  EXPECT_EQ(read(grid), "abcdefghi");
}

TEST_F(BoxGridsTest, TakesEqualBoxesForReplicas) {
  const CellGridPtr grid = make({{piece({{0, 0}, {3, 1}})},
                                 {piece({{0, 1}, {3, 2}}), piece({{0, 0}, {3, 1}})},
                                 {piece({{0, 1}, {3, 2}})}});
  ASSERT_EQ(grid->cell_count(), 2U);
  ASSERT_EQ(grid->replica_count(), 2U);
  EXPECT_EQ(grid->cell(0), (Holding{&files[0], &files[0].index->entries()[0]}));
  EXPECT_EQ(grid->cell(1), (Holding{&files[1], &files[1].index->entries()[0]}));
  EXPECT_EQ(grid->replica_at(0).cell, 0U);
  EXPECT_EQ(grid->replica_at(0).holding, (Holding{&files[1], &files[1].index->entries()[1]}));
  EXPECT_EQ(grid->replica_at(1).cell, 1U);
  EXPECT_EQ(grid->replica_at(1).holding, (Holding{&files[2], &files[2].index->entries()[0]}));
  const auto any = [](const RankFile&) { return true; };
  EXPECT_EQ(grid->replica(1, any), grid->replica_at(1).holding);
  EXPECT_FALSE(grid->replica(1, [&](const RankFile& file) { return &file != &files[2]; }));
  EXPECT_FALSE(grid->without_stand_ins()->stand_in(0, any));
}

TEST_F(BoxGridsTest, ReadsAReplicaWhereTheFirstFileFails) {
  const CellGridPtr grid = make({{piece({{0, 0}, {3, 1}}), piece({{0, 2}, {3, 1}})},
                                 {piece({{0, 1}, {3, 1}})},
                                 {piece({{0, 2}, {3, 1}}), piece({{0, 0}, {3, 1}})}});
  // Each read of each rank 0's file fails once; what rank 2 holds stands in.
  files[0].source = std::make_shared<test::FaultSource>(files[0].source, 1, EIO);
  EXPECT_EQ(read(grid), "abcdefghi");
  // Nobody else has what rank 1 holds.
  files[1].source = std::make_shared<test::FaultSource>(files[1].source, 1, EIO);
  expect_error(ErrorKind::kIo, {"rank_1"}, [&] { read(grid); });
}

TEST_F(BoxGridsTest, LacksWhatNoBoxHas) {
  const CellGridPtr grid = make({{piece(kRight), piece(kTop)}, {piece(kBottom)}, {piece(kLeft)}});
  EXPECT_FALSE(grid->complete());
  EXPECT_EQ(grid->cell_count(), 5U);
  EXPECT_FALSE(grid->cell(4));
  expect_error(ErrorKind::kMissing, {"'w'"}, [&] { read(grid); });
  std::uint64_t missing = 0;
  ShownTensor(grid).for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
    if (!holding) missing += bytes;
  });
  EXPECT_EQ(missing, 1U);
  // The first row is there.
  std::vector<std::byte> row(3);
  ReadBatch batch;
  ShownTensor(grid).read(0, row, batch);
  EXPECT_EQ(test::text_of(row), "abc");
}

TEST_F(BoxGridsTest, LacksAListedBoxThatIsInNoFile) {
  files.push_back(piece_file(0, {piece({{0, 0}, {2, 3}})}));
  BoxPlacement placement = boxes_of_entries(holders(), {3, 3});
  placement.boxes.push_back({{{2, 0}, {1, 3}}, {}});
  const CellGridPtr grid = grids.make(placement, files[0].index->entries()[0]);
  EXPECT_FALSE(grid->complete());
  EXPECT_EQ(grid->cell_count(), 2U);
  expect_error(ErrorKind::kMissing, {"'w'"}, [&] { read(grid); });
}

TEST_F(BoxGridsTest, IsMissingAltogetherWithoutABox) {
  files.push_back(piece_file(0, {piece({{0, 0}, {0, 3}})}));
  const CellGridPtr grid =
      grids.make(boxes_of_entries(holders(), {3, 3}), files[0].index->entries()[0]);
  EXPECT_FALSE(grid->complete());
  ASSERT_EQ(grid->cell_count(), 1U);
  EXPECT_FALSE(grid->cell(0));
  expect_error(ErrorKind::kMissing, {"'w'"}, [&] { read(grid); });
  EXPECT_FALSE(ShownTensor(grid).whole_cell());
}

TEST_F(BoxGridsTest, HasOneCellOfATensorWithoutElements) {
  const CellGridPtr grid = make({{piece({{0, 0}, {0, 3}})}}, {0, 3});
  EXPECT_TRUE(grid->complete());
  ASSERT_EQ(grid->cell_count(), 1U);
  EXPECT_TRUE(grid->cell(0));
  EXPECT_EQ(read(grid), "");
}

TEST_F(BoxGridsTest, ReadsAScalar) {
  const CellGridPtr grid =
      make({{{"s", DType::kUInt8, {}, "x"}}, {{"s", DType::kUInt8, {}, "x"}}}, {});
  EXPECT_EQ(grid->cell_count(), 1U);
  EXPECT_EQ(grid->replica_count(), 1U);
  EXPECT_EQ(ShownTensor(grid).whole_cell(), grid->cell(0));
  EXPECT_EQ(read(grid), "x");
}

TEST_F(BoxGridsTest, IgnoresBoxesWithoutElementsWhereverTheyAre) {
  const CellGridPtr grid = make({{piece({{0, 0}, {3, 3}}), piece({{1, 0}, {0, 3}})},
                                 {piece({{3, 0}, {0, 3}}), piece({{9, 9}, {0, 3}})}});
  EXPECT_EQ(grid->cell_count(), 1U);
  EXPECT_EQ(read(grid), "abcdefghi");
}

TEST_F(BoxGridsTest, RefusesBoxesThatOverlapInPart) {
  expect_error(ErrorKind::kBadInput, {"[2, 2] at [0, 0]", "[2, 1] at [1, 1]", "rank_0", "rank_1"},
               [&] {
                 make({{piece({{0, 0}, {2, 2}})}, {piece({{1, 1}, {2, 1}})}});
               });
}

TEST_F(BoxGridsTest, RefusesABoxInsideAnother) {
  expect_error(ErrorKind::kBadInput, {"[3, 3] at [0, 0]", "[1, 1] at [1, 1]"}, [&] {
    make({{piece({{0, 0}, {3, 3}}), piece(kCentre)}});
  });
}

TEST_F(BoxGridsTest, RefusesABoxOutsideTheTensor) {
  expect_error(ErrorKind::kBadInput, {"[2, 3] at [2, 0]", "[3, 3]"}, [&] {
    make({{piece({{0, 0}, {2, 3}}), piece({{2, 0}, {2, 3}})}});
  });
  files.clear();
  expect_error(ErrorKind::kBadInput, {"[3, 3] at [0, 0]", "[9]"}, [&] {
    make({{piece({{0, 0}, {3, 3}})}}, {9});
  });
}

TEST_F(BoxGridsTest, RefusesAnEntryThatIsNotAsItsBox) {
  files.push_back(piece_file(0, {piece({{0, 0}, {3, 3}})}));
  BoxPlacement placement = boxes_of_entries(holders(), {3, 3});
  placement.boxes[0].box.sizes = {3, 2};
  const TensorEntry& like = files[0].index->entries()[0];
  expect_error(ErrorKind::kBadInput, {"[3, 2] at [0, 0]", "UInt8 [3, 3]", "rank_0"},
               [&] { grids.make(placement, like); });
  TensorEntry other = like;
  other.dtype = DType::kInt8;
  expect_error(ErrorKind::kBadInput, {"Int8 [3, 3]", "UInt8 [3, 3]"}, [&] {
    grids.make(boxes_of_entries(holders(), {3, 3}), other);
  });
}

TEST_F(BoxGridsTest, RefusesATensorThatCannotBeCounted) {
  files.push_back(piece_file(0, {piece({{0, 0}, {3, 3}})}));
  constexpr std::int64_t kLong = std::int64_t{1} << 32U;
  expect_error(ErrorKind::kBadInput, {"64-bit"}, [&] {
    grids.make(boxes_of_entries(holders(), {kLong, kLong}), files[0].index->entries()[0]);
  });
}

TEST_F(BoxGridsTest, SharesWhatParametersHaveAlike) {
  const auto two = [](const std::string& name) {
    return std::pair(Piece{name, DType::kUInt8, {{0}, {1}}, "a"},
                     Piece{name, DType::kUInt8, {{1}, {1}}, "b"});
  };
  const auto [v0, v1] = two("v");
  const auto [w0, w1] = two("w");
  const auto [x0, x1] = two("x");
  files = {piece_file(0, {v0, w1, x0}), piece_file(1, {v1, w0, x1})};
  const auto grid_of = [&](const std::string& name) {
    Holders list;
    for (const RankFile& file : files) list.add({&file, 1, file.index->find(name)});
    return grids.make(boxes_of_entries(list, {2}), *files[0].index->find(name));
  };
  const CellGridPtr v = grid_of("v");
  const CellGridPtr w = grid_of("w");
  const CellGridPtr x = grid_of("x");
  EXPECT_EQ(v->boxes(), w->boxes());
  EXPECT_NE(&v->pattern(), &w->pattern());
  EXPECT_EQ(&v->pattern(), &x->pattern());
  EXPECT_EQ(x->cell(1).entry, files[1].index->find("x"));
}

TEST_F(BoxGridsTest, SharesNothingWhereReplicasAreOfOtherBoxes) {
  const auto of = [](const std::string& name, std::int64_t at) {
    return Piece{name, DType::kUInt8, {{at}, {1}}, at == 0 ? "a" : "b"};
  };
  // The same files for the same boxes, but rank 2 has the first box of one and the second of other.
  files = {piece_file(0, {of("v", 0), of("w", 0)}), piece_file(1, {of("v", 1), of("w", 1)}),
           piece_file(2, {of("v", 0), of("w", 1)})};
  const auto grid_of = [&](const std::string& name) {
    Holders list;
    for (const RankFile& file : files) list.add({&file, 1, file.index->find(name)});
    return grids.make(boxes_of_entries(list, {2}), *files[0].index->find(name));
  };
  const CellGridPtr v = grid_of("v");
  const CellGridPtr w = grid_of("w");
  EXPECT_EQ(v->boxes(), w->boxes());
  EXPECT_EQ(v->replica_at(0).cell, 0U);
  EXPECT_EQ(w->replica_at(0).cell, 1U);
}

TEST_F(BoxGridsTest, NeedsOneRunForManyRowsOfABox) {
  const Box left{{0, 0}, {1000, 3}};
  const Box right{{0, 3}, {1000, 5}};
  files = {piece_file(0, {{"w", DType::kUInt8, left, std::string(3000, 'l')},
                          {"w", DType::kUInt8, right, std::string(5000, 'r')}})};
  const CellGridPtr grid =
      grids.make(boxes_of_entries(holders(), {1000, 8}), files[0].index->entries()[0]);
  const auto runs = [&](const AxisPartition& columns, std::int64_t part) {
    std::vector<std::uint64_t> lengths;
    ShownTensor(grid, {AxisPartition::even(1000, 1), columns}, {0, part})
        .for_each_run(ByteRange(0, 600),
                      [&](const StridedRun& run) { lengths.push_back(run.length * run.count); });
    return lengths;
  };
  EXPECT_THAT(runs(AxisPartition::even(8, 1), 0), ElementsAre(225, 375));
  EXPECT_THAT(runs(AxisPartition::even(8, 4), 0), ElementsAre(600));
  EXPECT_THAT(runs(AxisPartition::even(8, 4), 1), ElementsAre(300, 300));
  // Of all that a box has, one piece.
  EXPECT_THAT(runs(AxisPartition::of_lengths({3, 5}), 0), ElementsAre(600));
  EXPECT_THAT(runs(AxisPartition::of_lengths({3, 5}), 1), ElementsAre(600));
  const SourceRanges ranges = source_ranges(
      ShownTensor(grid, {AxisPartition::even(1000, 1), AxisPartition::of_lengths({3, 5})}, {0, 1}),
      10);
  EXPECT_EQ(ranges.ranges.size(), 1U);
}

TEST_F(BoxGridsTest, NeedsOneRunForARangeOfAWholeBox) {
  const Box whole{{0, 0, 0}, {5, 4, 6}};
  files = {piece_file(0, {{"w", DType::kUInt16, whole, std::string(240, 'x')}})};
  const CellGridPtr grid =
      grids.make(boxes_of_entries(holders(), {5, 4, 6}), files[0].index->entries()[0]);
  // From inside an element to inside another one.
  ShownTensor(grid).for_each_run(ByteRange(5, 190), [&](const StridedRun& run) {
    EXPECT_EQ(run.count, 1U);
    EXPECT_EQ(run.length, 190U);
    EXPECT_EQ(run.source_offset, 5U);
    EXPECT_EQ(run.destination_offset, 5U);
  });
}

TEST_F(BoxGridsTest, JoinsTheDimensionsOfAStridedRun) {
  // A column of [5, 4, 6]: rows and planes are equally far apart.
  const Box whole{{0, 0, 0}, {5, 4, 6}};
  files = {piece_file(0, {{"w", DType::kUInt8, whole, test::counting_bytes(120)}})};
  const CellGridPtr grid =
      grids.make(boxes_of_entries(holders(), {5, 4, 6}), files[0].index->entries()[0]);
  const ShownTensor view(
      grid,
      {AxisPartition::even(5, 1), AxisPartition::even(4, 1), AxisPartition::of_lengths({2, 3, 1})},
      {0, 0, 1});
  std::size_t runs = 0;
  view.for_each_run(ByteRange::whole(view.size()), [&](const StridedRun& run) {
    ++runs;
    EXPECT_EQ(run.length, 3U);
    EXPECT_EQ(run.count, 20U);
    EXPECT_EQ(run.source_stride, 6U);
  });
  EXPECT_EQ(runs, 1U);
}

TEST_F(BoxGridsTest, BearsThirtyTwoDimensions) {
  const auto view_of = [&](std::size_t dimensions) {
    const Box whole{Shape(dimensions, 0), Shape(dimensions, 1)};
    files = {piece_file(0, {{"w", DType::kUInt8, whole, "x"}})};
    const CellGridPtr grid =
        grids.make(boxes_of_entries(holders(), Shape(dimensions, 1)), files[0].index->entries()[0]);
    EXPECT_EQ(read(grid), "x");
  };
  view_of(32);
  expect_error(ErrorKind::kUnsupported, {"32 dimensions"}, [&] { view_of(33); });
}

TEST_F(BoxGridsTest, ReadsOneOfManyBoxesWithoutALookAtTheOthers) {
  // Ten thousand columns; each slice has one. All together: as long as a few reads of everything.
  constexpr std::int64_t kColumns = 10'000;
  std::vector<Piece> pieces;
  for (std::int64_t i = 0; i < kColumns; ++i) {
    pieces.push_back({"w", DType::kUInt8, {{0, i}, {2, 1}}, std::string(2, static_cast<char>(i))});
  }
  files = {piece_file(0, pieces)};
  const CellGridPtr grid =
      grids.make(boxes_of_entries(holders(), {2, kColumns}), files[0].index->entries()[0]);
  const AxisPartition columns = AxisPartition::even(kColumns, kColumns);
  for (std::int64_t i = 0; i < kColumns; ++i) {
    const ShownTensor view(grid, {AxisPartition::even(2, 1), columns}, {0, i});
    ASSERT_EQ(view.whole_cell(), grid->cell(static_cast<std::size_t>(i)));
    std::vector<std::byte> out(2);
    ReadBatch batch;
    view.read(0, out, batch);
    ASSERT_EQ(test::text_of(out), std::string(2, static_cast<char>(i)));
  }
}

}  // namespace
}  // namespace reshardfs
