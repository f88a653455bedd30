// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/text/strategy_listing.h"

namespace reshardfs {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(StrategyPicture, DrawsTheDeviceMatrix) {
  EXPECT_EQ(device_matrix_picture({2, 4}, Rank(8)),
            "   8   9  10  11\n"
            "  12  13  14  15\n");
}

TEST(StrategyPicture, SeparatesBlocksOfThreeAxes) {
  EXPECT_EQ(device_matrix_picture({2, 2, 2}, Rank(0)), "  0  1\n  2  3\n\n  4  5\n  6  7\n");
}

TEST(StrategyPicture, StaysInEightyColumns) {
  EXPECT_LE(widest_line(device_matrix_picture({8, 128}, Rank(0))), 80U);
  EXPECT_LE(widest_line(slice_picture({.device_matrix = {512}, .tensor_map = {{}, {0}}}, Rank(0))),
            80U);
}

TEST(StrategyPicture, BreaksLongListsOfRanks) {
  const std::string text = slice_picture({.device_matrix = {512, 2}, .tensor_map = {{0}}}, Rank(0));
  EXPECT_LE(widest_line(text), 80U);
  EXPECT_THAT(text, ::testing::HasSubstr(",\n      "));
  EXPECT_THAT(text, ::testing::HasSubstr("1023\n"));
}

TEST(StrategyPicture, ShowsWhichRanksHoldAPart) {
  EXPECT_EQ(slice_picture({.device_matrix = {2, 2, 2}, .tensor_map = {{1}, {0}}}, Rank(0)),
            "  +-----+-----+\n"
            "  | 0,4 | 1,5 |\n"
            "  +-----+-----+\n"
            "  | 2,6 | 3,7 |\n"
            "  +-----+-----+\n");
}

TEST(StrategyPicture, ListsThreeCutDimensions) {
  const std::string text =
      slice_picture({.device_matrix = {2, 2}, .tensor_map = {{1}, {}, {0}}}, Rank(4));
  EXPECT_THAT(text, ::testing::HasSubstr("part [1/2, all, 2/2]  ranks 5\n"));
}

TEST(StrategyPicture, ShowsAScalarOnAllRanks) {
  EXPECT_EQ(slice_picture({.device_matrix = {4}}, Rank(0)), "  part []  ranks 0-3\n");
}

}  // namespace
}  // namespace reshardfs
