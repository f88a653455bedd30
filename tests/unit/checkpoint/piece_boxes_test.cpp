// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "checkpoint/box_catalogue.h"
#include "support/boxes.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::piece_file;

const test::Piece kLow{"w", DType::kInt8, {{0}, {2}}, "ab"};
const test::Piece kHigh{"w", DType::kInt8, {{2}, {1}}, "c"};

TEST(PieceBoxes, AreThoseOfAllPiecesOfAllFiles) {
  const std::vector<RankFile> files{piece_file(0, {kHigh, kLow}), piece_file(1, {kHigh})};
  Holders holders;
  for (const RankFile& file : files) {
    for (const TensorEntry& entry : file.index->entries()) holders.add({&file, 1, &entry});
  }
  const BoxPlacement placement = boxes_of_entries(holders, {3});
  EXPECT_EQ(placement.full_shape, Shape{3});
  ASSERT_EQ(placement.boxes.size(), 3U);
  EXPECT_EQ(placement.boxes[0].box, kHigh.box);
  EXPECT_EQ(placement.boxes[1].box, kLow.box);
  EXPECT_EQ(placement.boxes[2].box, kHigh.box);
  ASSERT_EQ(placement.boxes[1].holdings.size(), 1U);
  EXPECT_EQ(placement.boxes[1].holdings[0], (Holding{files.data(), &files[0].index->entries()[1]}));
  EXPECT_EQ(placement.boxes[2].holdings[0].file, &files[1]);
}

TEST(PieceBoxes, BeginAtTheBeginWithoutOffsets) {
  TensorEntry entry;
  entry.name = "w";
  entry.shape = {4, 2};
  RankFile file = piece_file(0, {});
  file.index = std::make_shared<const FileIndex>(std::vector{entry});
  Holders holders;
  holders.add({&file, 1, file.index->find("w")});
  const BoxPlacement placement = boxes_of_entries(holders, {4, 2});
  ASSERT_EQ(placement.boxes.size(), 1U);
  EXPECT_EQ(placement.boxes[0].box, (Box{{0, 0}, {4, 2}}));
}

TEST(CheckpointSet, HasPiecesOfAParameterInSeveralPartsOfARank) {
  const auto set = test::box_set({piece_file(0, {kLow}, 0), piece_file(0, {kHigh}, 1)}, {});
  EXPECT_EQ(set->files_of(Rank(0)).size(), 2U);
}

TEST(CheckpointSet, RefusesAPieceBesideAWholeParameter) {
  RankFile whole = piece_file(0, {}, 1);
  TensorEntry entry;
  entry.name = "w";
  whole.index = std::make_shared<const FileIndex>(std::vector{entry});
  test::expect_error(ErrorKind::kBadInput, {"'w'", "two parts"}, [&] {
    test::box_set({piece_file(0, {kLow}, 0), whole}, {});
  });
}

TEST(CheckpointSet, RefusesPiecesThatNoCatalogPlaces) {
  test::expect_error(ErrorKind::kUnsupported, {"'w'", "part of a tensor", "name the directory"},
                     [] { CheckpointSet({piece_file(0, {kHigh}, 0)}); });
}

}  // namespace
}  // namespace reshardfs
