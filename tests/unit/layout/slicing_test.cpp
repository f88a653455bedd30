// SPDX-License-Identifier: Apache-2.0
#include "layout/slicing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const Layout& layout, const Shape& shape) {
  try {
    const Slicing slicing(layout, shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Slicing, CutsRowsOverTheLastAxis) {
  const Slicing slicing({.device_matrix = {2, 4}, .tensor_map = {{0}, {}}}, {8, 6});
  EXPECT_EQ(slicing.devices(), 8);
  EXPECT_EQ(slicing.cell_count(), 4);
  EXPECT_THAT(slicing.parts_of(5), ElementsAre(1, 0));
  EXPECT_THAT(slicing.slice_shape(5), ElementsAre(2, 6));
}

TEST(Slicing, CountsAxesFromTheRight) {
  const Slicing slicing({.device_matrix = {2, 4}, .tensor_map = {{1}, {0}}}, {4, 8});
  EXPECT_THAT(slicing.parts_of(6), ElementsAre(1, 2));
}

TEST(Slicing, TakesTheFirstOfSeveralAxesAsMajor) {
  const Slicing forward({.device_matrix = {2, 4}, .tensor_map = {{1, 0}}}, {8});
  const Slicing backward({.device_matrix = {2, 4}, .tensor_map = {{0, 1}}}, {8});
  EXPECT_THAT(forward.parts_of(6), ElementsAre(1 * 4 + 2));
  EXPECT_THAT(backward.parts_of(6), ElementsAre(2 * 2 + 1));
}

TEST(Slicing, SharesOutTheOptimizerCutByAscendingRank) {
  // Axis 2 and 0 are free: ranks with the same slice differ in them, and ascend with them.
  const Slicing slicing(
      {.device_matrix = {2, 2, 2}, .tensor_map = {{1}, {}}, .optimizer_shard_size = -1}, {16, 3});
  EXPECT_THAT(slicing.slice_shape(0), ElementsAre(2, 3));
  EXPECT_THAT(slicing.parts_of(0), ElementsAre(0, 0));
  EXPECT_THAT(slicing.parts_of(1), ElementsAre(1, 0));
  EXPECT_THAT(slicing.parts_of(4), ElementsAre(2, 0));
  EXPECT_THAT(slicing.parts_of(7), ElementsAre(7, 0));
}

TEST(Slicing, WrapsAnOptimizerCutSmallerThanTheReplicas) {
  const Slicing slicing({.device_matrix = {4, 2}, .tensor_map = {{0}}, .optimizer_shard_size = 2},
                        {8});
  EXPECT_THAT(slicing.parts_of(0), ElementsAre(0));
  EXPECT_THAT(slicing.parts_of(2), ElementsAre(1));
  EXPECT_THAT(slicing.parts_of(4), ElementsAre(0));
  EXPECT_THAT(slicing.parts_of(7), ElementsAre(3));
}

TEST(Slicing, GivesAScalarToEveryRank) {
  const Slicing slicing({.device_matrix = {4}, .optimizer_shard_size = -1}, {});
  EXPECT_EQ(slicing.cell_count(), 1);
  EXPECT_EQ(slicing.cell_of(3), 0);
  EXPECT_TRUE(slicing.slice_shape(3).empty());
}

TEST(Slicing, RefusesWhatDoesNotDivideAndSaysTheNumbers) {
  const std::string text = refusal({.device_matrix = {16}, .tensor_map = {{}, {0}}}, {4, 8});
  EXPECT_THAT(text, HasSubstr("dimension 1"));
  EXPECT_THAT(text, HasSubstr("8 elements"));
  EXPECT_THAT(text, HasSubstr("16 equal parts"));
}

TEST(Slicing, RefusesAnImpossibleLayout) {
  EXPECT_THAT(refusal({.device_matrix = {2}, .tensor_map = {{1}}}, {8}), HasSubstr("axis 1"));
  EXPECT_THAT(refusal({.device_matrix = {2}, .tensor_map = {{0}, {0}}}, {8, 8}),
              HasSubstr("axis 0 twice"));
  EXPECT_THAT(refusal({.device_matrix = {2}, .tensor_map = {{0}}, .optimizer_shard_size = -2}, {8}),
              HasSubstr("-2"));
}

TEST(Slicing, RefusesAnotherNumberOfDimensions) {
  EXPECT_THAT(refusal({.device_matrix = {2}, .tensor_map = {{0}}}, {4, 8}),
              HasSubstr("for 1 dimension, but its shape is [4, 8]"));
}

// Rows that no rank has would be missing in every target.
TEST(Slicing, RefusesAnOptimizerCutOfMorePartsThanDevicesThatHoldASlice) {
  Layout layout{.device_matrix = {2, 3, 2}, .tensor_map = {{1}}, .optimizer_shard_size = 4};
  EXPECT_EQ(Slicing(layout, {24}).cell_count(), 12);
  layout.optimizer_shard_size = 5;
  EXPECT_THAT(refusal(layout, {30}),
              HasSubstr("into 5 parts, more than there are devices that hold it (4)"));
  layout.optimizer_shard_size = INT64_MAX;
  EXPECT_THAT(refusal(layout, {30}), HasSubstr("9223372036854775807 parts"));
}

TEST(Slicing, TheWholeIsOneSliceOfOneDevice) {
  const Slicing whole = Slicing::whole({3, 5});
  EXPECT_EQ(whole.devices(), 1);
  EXPECT_EQ(whole.cell_count(), 1);
  EXPECT_THAT(whole.slice_shape(0), ElementsAre(3, 5));
}

TEST(Slicing, CutsInBalancedPartsAsArraySplit) {
  const Slicing slicing({.device_matrix = {4}, .tensor_map = {{}, {0}}, .uneven = {{}, {true, {}}}},
                        {2, 10});
  EXPECT_THAT(slicing.slice_shape(0), ElementsAre(2, 3));
  EXPECT_THAT(slicing.slice_shape(1), ElementsAre(2, 3));
  EXPECT_THAT(slicing.slice_shape(2), ElementsAre(2, 2));
  EXPECT_THAT(slicing.slice_shape(3), ElementsAre(2, 2));
}

TEST(Slicing, CutsInTheGivenLengths) {
  const Slicing slicing({.device_matrix = {3}, .tensor_map = {{0}}, .uneven = {{false, {5, 0, 2}}}},
                        {7});
  EXPECT_THAT(slicing.slice_shape(0), ElementsAre(5));
  EXPECT_THAT(slicing.slice_shape(1), ElementsAre(0));
  EXPECT_THAT(slicing.slice_shape(2), ElementsAre(2));
}

TEST(Slicing, ReadsParamSplitShape) {
  const Layout layout{
      .device_matrix = {2, 2}, .tensor_map = {{1}, {0}}, .param_split_shape = {{5, 5, 3, 3}}};
  const Slicing slicing(layout, {8, 4});
  EXPECT_THAT(slicing.slice_shape(1), ElementsAre(5, 2));
  EXPECT_THAT(slicing.slice_shape(2), ElementsAre(3, 2));
  EXPECT_THAT(full_shape_of(layout, {{2, {3, 2}}}), ElementsAre(8, 4));
}

TEST(Slicing, RefusesAParamSplitShapeThatContradictsItself) {
  // Slices beside each other must have the same rows.
  EXPECT_THAT(
      refusal(
          {.device_matrix = {2, 2}, .tensor_map = {{1}, {0}}, .param_split_shape = {{5, 4, 3, 4}}},
          {8, 4}),
      HasSubstr("4 lengths are given"));
}

TEST(Slicing, PrefersWhatRulesSayToParamSplitShape) {
  Layout layout{.device_matrix = {2},
                .tensor_map = {{0}},
                .uneven = {{true, {}}},
                .param_split_shape = {{6, 2}}};
  EXPECT_THAT(Slicing(layout, {8}).slice_shape(0), ElementsAre(4));
  layout.uneven = {{false, {5, 3}}};
  EXPECT_THAT(Slicing(layout, {8}).slice_shape(0), ElementsAre(5));
  // They say nothing of dimension 0 here.
  layout = {.device_matrix = {2, 2},
            .tensor_map = {{1}, {0}},
            .uneven = {{}, {false, {3, 1}}},
            .param_split_shape = {{6, 2}}};
  EXPECT_THAT(Slicing(layout, {8, 4}).slice_shape(0), ElementsAre(6, 3));
}

TEST(Slicing, CutsAnUnevenPartOnceMoreForTheOptimizer) {
  const Layout layout{.device_matrix = {2, 2},
                      .tensor_map = {{0}},
                      .optimizer_shard_size = 2,
                      .uneven = {{false, {6, 2}}}};
  const Slicing slicing(layout, {8});
  EXPECT_THAT(slicing.slice_shape(0), ElementsAre(3));
  EXPECT_THAT(slicing.slice_shape(1), ElementsAre(1));
  EXPECT_THAT(refusal({.device_matrix = {2, 2},
                       .tensor_map = {{0}},
                       .optimizer_shard_size = 2,
                       .uneven = {{false, {5, 3}}}},
                      {8}),
              HasSubstr("optimizer cannot cut"));
}

TEST(Slicing, RefusesLengthsThatDoNotFit) {
  EXPECT_THAT(
      refusal({.device_matrix = {2}, .tensor_map = {{0}}, .uneven = {{false, {5, 4}}}}, {8}),
      HasSubstr("add up to 9"));
  EXPECT_THAT(refusal({.device_matrix = {2}, .tensor_map = {{0}}, .uneven = {{false, {8}}}}, {8}),
              HasSubstr("1 lengths are given"));
  EXPECT_THAT(
      refusal({.device_matrix = {2}, .tensor_map = {{0}}, .param_split_shape = {{5, 3, 8}}}, {8}),
      HasSubstr("3 lengths are given"));
  EXPECT_EQ(refusal({.device_matrix = {2}, .tensor_map = {{0}}, .param_split_shape = {{}}}, {8}),
            "accepted");
}

TEST(Slicing, GivesEveryPartRowsOfEachField) {
  const Slicing slicing({.device_matrix = {2}, .tensor_map = {{0}}, .field = 3}, {12});
  EXPECT_THAT(slicing.slice_shape(1), ElementsAre(6));
  const auto intervals = slicing.partitions()[0].intervals_of(1);
  ASSERT_EQ(intervals.size(), 3U);
  EXPECT_EQ(intervals[0].begin, 2);
  EXPECT_EQ(intervals[1].begin, 6);
  EXPECT_EQ(intervals[2].begin, 10);
  EXPECT_EQ(intervals[2].local_begin, 4);
  EXPECT_THAT(refusal({.device_matrix = {2}, .tensor_map = {{0}}, .field = 5}, {12}),
              HasSubstr("5 fields"));
}

TEST(Slicing, CutsNoOtherDimensionByFields) {
  const Slicing slicing({.device_matrix = {2}, .tensor_map = {{0}, {}}, .field = 3}, {12, 7});
  EXPECT_THAT(slicing.slice_shape(1), ElementsAre(6, 7));
  EXPECT_EQ(slicing.partitions()[0], AxisPartition::by_field(12, 3, 2));
  EXPECT_EQ(slicing.partitions()[1], AxisPartition::even(7, 1));
}

TEST(Slicing, OneFieldIsNone) {
  const Layout one{.device_matrix = {2}, .tensor_map = {{0}}, .field = 1};
  EXPECT_EQ(Slicing(one, {12}).partitions()[0], AxisPartition::even(12, 2));
  EXPECT_THAT(refusal(one, {11}), ::testing::Not(HasSubstr("fields")));
  Layout uneven = one;
  uneven.uneven = {{false, {7, 5}}};
  EXPECT_EQ(refusal(uneven, {12}), "accepted");
}

TEST(Slicing, TwoFieldsAreCut) {
  Layout two{.device_matrix = {2}, .tensor_map = {{0}}, .field = 2};
  EXPECT_EQ(Slicing(two, {12}).partitions()[0], AxisPartition::by_field(12, 2, 2));
  EXPECT_THAT(refusal(two, {10}), HasSubstr("2 equal parts of 2 fields"));
  two.uneven = {{false, {7, 5}}};
  EXPECT_THAT(refusal(two, {12}), HasSubstr("by fields and unevenly"));
}

TEST(Slicing, DerivesTheFullShapeFromASlice) {
  EXPECT_THAT(
      full_shape_of({.device_matrix = {2, 4}, .tensor_map = {{0}, {}}, .optimizer_shard_size = -1},
                    {{5, {3, 5}}}),
      ElementsAre(24, 5));
}

TEST(Slicing, DerivesTheFullShapeFromTheFirstOfSeveralSlices) {
  EXPECT_THAT(full_shape_of({.device_matrix = {2}, .tensor_map = {{0}}}, {{0, {2}}, {1, {3}}}),
              ElementsAre(4));
}

TEST(Slicing, RefusesToDeriveAShapeFromSlicesOfOtherDimensions) {
  EXPECT_THROW(full_shape_of({.device_matrix = {2}, .tensor_map = {{0}}}, {{0, {2}}, {1, {3, 1}}}),
               Error);
}

TEST(Slicing, DerivesABalancedLengthFromAllParts) {
  const Layout layout{.device_matrix = {3}, .tensor_map = {{0}}, .uneven = {{true, {}}}};
  EXPECT_THAT(full_shape_of(layout, {{0, {4}}, {1, {3}}, {2, {3}}}), ElementsAre(10));
  EXPECT_THROW(full_shape_of(layout, {{0, {4}}, {2, {3}}}), Error);
}

TEST(Slicing, EveryRankHoldsExactlyOneCellAndReplicasShareIt) {
  const Slicing slicing(
      {.device_matrix = {3, 2, 2}, .tensor_map = {{0}, {2}}, .optimizer_shard_size = 2}, {8, 6});
  std::vector<int> holders(static_cast<std::size_t>(slicing.cell_count()), 0);
  for (std::int64_t rank = 0; rank < slicing.devices(); ++rank) {
    ++holders.at(static_cast<std::size_t>(slicing.cell_of(rank)));
  }
  EXPECT_THAT(holders, ::testing::Each(1));
}

}  // namespace
}  // namespace reshardfs
