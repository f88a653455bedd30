// SPDX-License-Identifier: Apache-2.0
#include "layout/fold.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs {
namespace {

TEST(FoldExpanded, JoinsTheDimensionsThatJsonSplit) {
  const Layout expanded{
      .device_matrix = {2, 2}, .tensor_map = {{1}, {0}, {}}, .tensor_shape = {2, 4, 16}};
  const Layout folded = fold_expanded(expanded, {2, 16}, true);
  EXPECT_EQ(folded.tensor_map, (TensorMap{{1, 0}, {}}));
  EXPECT_EQ(folded.tensor_shape, (Shape{8, 16}));
  EXPECT_EQ(fold_expanded(expanded, {8, 16}, false), folded);
}

TEST(FoldExpanded, CountsTheOptimizerCutOnDimensionZero) {
  const Layout expanded{.device_matrix = {2, 2, 2},
                        .tensor_map = {{1}, {0}, {}},
                        .optimizer_shard_size = -1,
                        .tensor_shape = {2, 8, 16}};
  EXPECT_EQ(fold_expanded(expanded, {2, 16}, true).tensor_map, (TensorMap{{1, 0}, {}}));
}

TEST(FoldExpanded, GivesALoneDeviceEveryDimension) {
  EXPECT_EQ(fold_expanded({.device_matrix = {1}}, {3, 4}, true).tensor_map, (TensorMap{{}, {}}));
  EXPECT_EQ(fold_expanded({.device_matrix = {2}}, {3, 4}, true).tensor_map, TensorMap{});
}

TEST(FoldExpanded, FoldsOnALoneDeviceToo) {
  const Layout expanded{
      .device_matrix = {1}, .tensor_map = {{}, {}, {}}, .tensor_shape = {2, 3, 5}};
  const Layout folded = fold_expanded(expanded, {6, 5}, true);
  EXPECT_EQ(folded.tensor_map, (TensorMap{{}, {}}));
  EXPECT_EQ(folded.tensor_shape, (Shape{6, 5}));
}

TEST(FoldExpanded, LeavesAnOrdinaryLayoutAlone) {
  const Layout plain{.device_matrix = {4}, .tensor_map = {{0}, {}}, .tensor_shape = {8, 8}};
  EXPECT_EQ(fold_expanded(plain, {2, 8}, true), plain);
  EXPECT_EQ(fold_expanded(plain, {3, 8}, true), plain);  // is for others to refuse
}

TEST(FoldExpanded, LeavesALayoutWithoutItsShapeAlone) {
  const Layout shapeless{.device_matrix = {2, 2}, .tensor_map = {{1}, {0}, {}}};
  EXPECT_EQ(fold_expanded(shapeless, {2, 16}, true), shapeless);
}

TEST(FoldExpanded, TakesTwoWaysToOneLayoutAsOne) {
  // The dimension of length 1, which nothing cuts, may belong to either neighbour.
  const Layout expanded{
      .device_matrix = {2}, .tensor_map = {{0}, {}, {}}, .tensor_shape = {4, 1, 3}};
  EXPECT_EQ(fold_expanded(expanded, {4, 3}, false).tensor_map, (TensorMap{{0}, {}}));
}

TEST(FoldExpanded, RefusesAShapeThatDoesNotFit) {
  const Layout expanded{
      .device_matrix = {2, 2}, .tensor_map = {{1}, {0}, {}}, .tensor_shape = {2, 4, 16}};
  test::expect_error(ErrorKind::kBadInput, {"does not fit the shape [3, 16]", "protobuf"}, [&] {
    fold_expanded(expanded, {3, 16}, true);
  });
}

TEST(FoldExpanded, RefusesADimensionThatTheExpansionDoesNotHave) {
  const Layout expanded{
      .device_matrix = {1}, .tensor_map = {{}, {}, {}}, .tensor_shape = {2, 3, 4}};
  EXPECT_THROW(fold_expanded(expanded, {24, 1}, false), Error);
}

TEST(FoldExpanded, RefusesASliceThatWouldHaveToBeRounded) {
  // Half of three rows is not one row.
  const Layout expanded{
      .device_matrix = {2}, .tensor_map = {{0}, {}, {}}, .tensor_shape = {3, 2, 4}};
  EXPECT_THROW(fold_expanded(expanded, {1, 8}, true), Error);
}

TEST(FoldExpanded, RefusesMoreElementsThanCanBeCounted) {
  const Layout expanded{
      .device_matrix = {2}, .tensor_map = {{0}, {}, {}}, .tensor_shape = {1L << 62, 4, 4}};
  EXPECT_THROW(fold_expanded(expanded, {0, 4}, false), Error);
}

TEST(FoldExpanded, RefusesWhatCouldMeanTwoThings) {
  // [4, 1, 4] could be [4] x [4] with the axis of the middle dimension on either side.
  const Layout expanded{
      .device_matrix = {2, 1}, .tensor_map = {{}, {0}, {}}, .tensor_shape = {4, 1, 4}};
  test::expect_error(ErrorKind::kBadInput, {"fits in several ways the shape [4, 4]"}, [&] {
    fold_expanded(expanded, {4, 4}, false);
  });
}

TEST(FoldExpanded, RefusesPartsThatAreNoBox) {
  // Cut inside the first of two joined dimensions and again in the second: rows with gaps.
  const Layout expanded{
      .device_matrix = {2, 2}, .tensor_map = {{1}, {0}, {}}, .tensor_shape = {4, 4, 16}};
  EXPECT_THROW(fold_expanded(expanded, {16, 16}, false), Error);
}

TEST(FoldExpanded, RefusesAnOptimizerCutOfMorePartsThanNumbers) {
  for (const std::int64_t parts :
       {std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()}) {
    const Layout expanded{.device_matrix = {2, 2},
                          .tensor_map = {{1}, {0}, {}},
                          .optimizer_shard_size = parts,
                          .tensor_shape = {2, 2, 4}};
    EXPECT_THROW(fold_expanded(expanded, {4, 4}, true), Error);
  }
}

// There are 300 million ways to join 32 dimensions to 16, and all of them give the same.
TEST(FoldExpanded, TakesNoTimeForDimensionsOfOne) {
  Layout expanded{.device_matrix = {2}, .tensor_shape = Shape(32, 1)};
  expanded.tensor_map.resize(32);
  EXPECT_EQ(fold_expanded(expanded, Shape(16, 1), true).tensor_map.size(), 16U);
  expanded.device_matrix = {1, 1};
  expanded.tensor_map[15] = {0};
  EXPECT_THROW(fold_expanded(expanded, Shape(16, 1), true), Error);
}

}  // namespace
}  // namespace reshardfs
