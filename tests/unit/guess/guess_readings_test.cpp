// SPDX-License-Identifier: Apache-2.0
/// Layouts that slices can come from.
#include "guess/guess_readings.h"

#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/slicing.h"

namespace reshardfs::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Contents = std::vector<std::uint32_t>;

DeviceSlices slices(Shape shape, Contents contents) {
  DeviceSlices made{{std::move(shape)}, std::move(contents), {}};
  made.blank.resize(made.contents.size(), false);
  return made;
}

Readings of(Shape shape, const Contents& contents, const Shape& full) {
  const auto devices = static_cast<std::int64_t>(contents.size());
  return readings_of(devices, slices(std::move(shape), contents), full);
}

const Contents kDifferent{0, 1, 2, 3, 4, 5, 6, 7};

TEST(GuessReadings, HaveOneForAWholeTensor) {
  const Readings found = of({4, 6}, {0, 0, 0, 0}, {4, 6});
  ASSERT_THAT(found.left, SizeIs(1));
  EXPECT_TRUE(found.left.front().is_whole());
  EXPECT_EQ(found.left.front().layout.optimizer_shard_size, 0);
}

TEST(GuessReadings, ExcludeLayoutsWhoseCopiesDiffer) {
  const Readings found = of({4, 2}, {0, 1, 0, 1}, {4, 4});
  EXPECT_THAT(of({4, 2}, {0, 0, 0, 0}, {4, 4}).left, SizeIs(2));  // the inner or the outer two
  ASSERT_THAT(found.left, SizeIs(1));
  EXPECT_THAT(found.left.front().parts, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(found.left.front().layout.device_matrix, ElementsAre(2, 2));
}

TEST(GuessReadings, KeepAllOfEqualSlices) {
  EXPECT_THAT(of({4, 2}, {0, 0, 0, 0}, {4, 4}).left, SizeIs(2));
}

TEST(GuessReadings, HaveEveryOrderOfTheAxes) {
  // Three axes of two devices cut one dimension, and any of them may be the major one.
  for (const Shape& full : {Shape{16, 4}, Shape{2, 32}}) {
    const Readings found = of({2, 4}, kDifferent, full);
    EXPECT_THAT(found.left, SizeIs(6)) << to_string(full);
    EXPECT_THAT(found.left.front().parts, SizeIs(8));
  }
}

TEST(GuessReadings, HaveBothOrdersOfTwoAxes) {
  // The minor axis first gives parts 0, 2, 1, 3.
  const Readings found = of({2}, {0, 1, 2, 3}, {8});
  ASSERT_THAT(found.left, SizeIs(2));
  std::vector<std::vector<std::uint32_t>> parts;
  for (const Reading& reading : found.left) parts.push_back(reading.parts);
  EXPECT_THAT(parts,
              ::testing::UnorderedElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 2, 1, 3)));
}

TEST(GuessReadings, CutATensorOfTwoByTwoEitherWay) {
  EXPECT_THAT(of({1, 1}, {0, 1, 2, 3}, {2, 2}).left, SizeIs(2));
}

TEST(GuessReadings, StateByTheOptimizerOnlyWhatAxesDoNot) {
  for (const Reading& reading : of({2, 4}, kDifferent, {16, 4}).left) {
    EXPECT_EQ(reading.layout.optimizer_shard_size, 0) << to_string(reading.layout);
  }
}

TEST(GuessReadings, OfAnyShapeHaveAllThatRulesCanState) {
  // Whole, or two parts of either dimension.
  EXPECT_THAT(readings_of_any_shape(2, slices({4, 6}, {0, 0})).left, SizeIs(3));
  const Readings cut = readings_of_any_shape(2, slices({4, 6}, {0, 1}));
  ASSERT_THAT(cut.left, SizeIs(2));
  EXPECT_EQ(cut.left.front().full_shape, (Shape{8, 6}));
  EXPECT_EQ(cut.left.back().full_shape, (Shape{4, 12}));
}

TEST(GuessReadings, StopWhereThereAreTooMany) {
  Contents all(1024);
  std::iota(all.begin(), all.end(), 0U);
  const Readings found = of({1, 1}, all, {32, 32});
  EXPECT_TRUE(found.too_many);
  EXPECT_TRUE(found.fits);
}

TEST(GuessReadings, OfOneLayoutFollowTheShapesAndContents) {
  const Layout rows{.device_matrix = {2, 2}, .tensor_map = {{0}, {}}};
  const DeviceSlices copies = slices({4, 6}, {0, 1, 0, 1});
  const auto reading = reading_as(rows, copies, {8, 6});
  ASSERT_TRUE(reading.has_value());
  EXPECT_THAT(reading->parts, ElementsAre(0, 1, 0, 1));
  EXPECT_FALSE(reading_as(rows, copies, {16, 6}).has_value());
  EXPECT_FALSE(reading_as(rows, slices({4, 6}, {0, 0, 1, 1}), {8, 6}).has_value());
}

TEST(GuessReadings, CutTwoDimensionsEitherWay) {
  EXPECT_THAT(of({4, 4}, {0, 1, 2, 3}, {8, 8}).left, SizeIs(2));
}

TEST(GuessReadings, AreThoseOfTheirLayouts) {
  for (const Shape& full : {Shape{24, 12}, Shape{24, 24}, Shape{12, 36}}) {
    const Shape slice{12, 12};
    const Contents all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    for (const Reading& reading : of(slice, all, full).left) {
      const Reading again = reading_by(reading.layout, full);
      EXPECT_EQ(again.parts, reading.parts) << to_string(reading.layout);
      EXPECT_EQ(again.splits, reading.splits) << to_string(reading.layout);
      EXPECT_EQ(Slicing(reading.layout, full).slice_shape(0), slice) << to_string(reading.layout);
    }
  }
}

TEST(GuessReadings, RefuseShapesThatAreNoParts) {
  EXPECT_FALSE(of({4, 4}, {0, 1, 2, 3}, {6, 4}).fits);
  EXPECT_FALSE(of({4, 4}, {0, 1, 2, 3}, {4, 12}).fits);   // 3 parts of 4 devices
  EXPECT_FALSE(of({4, 4}, {0, 1, 2, 3}, {16, 16}).fits);  // 16 parts
  EXPECT_FALSE(of({4, 4}, {0, 1, 2, 3}, {16}).fits);
  EXPECT_FALSE(of({0, 4}, {0, 0, 0, 0}, {0, 4}).fits);
}

TEST(GuessReadings, ReadLengthsOfUnevenCuts) {
  DeviceSlices uneven{{{3, 2}, {2, 2}, {2, 2}, {2, 2}}, {0, 1, 2, 3}, {false, false, false, false}};
  // In the order of the ranks, or the minor axis first.
  const Readings balanced = readings_of(4, uneven, {9, 2});
  ASSERT_THAT(balanced.left, SizeIs(2));
  EXPECT_TRUE(balanced.left[0].layout.uneven.front().balanced);
  EXPECT_TRUE(balanced.left[1].layout.uneven.front().balanced);
  std::swap(uneven.shapes[0], uneven.shapes[1]);
  const Readings listed = readings_of(4, uneven, {9, 2});
  ASSERT_THAT(listed.left, SizeIs(2));
  EXPECT_THAT(listed.left[0].layout.uneven.front().lengths, ElementsAre(2, 2, 3, 2));
  EXPECT_THAT(listed.left[1].layout.uneven.front().lengths, ElementsAre(2, 3, 2, 2));
  EXPECT_THAT(readings_of(4, uneven, {10, 2}).left, IsEmpty());
}

TEST(GuessReadings, RefuseTwoUnevenDimensions) {
  const DeviceSlices uneven{{{3, 2}, {2, 3}}, {0, 1}, {false, false}};
  EXPECT_FALSE(readings_of(2, uneven, {5, 5}).fits);
}

TEST(GuessReadings, RepeatWhereDifferentPartsAreEqual) {
  DeviceSlices same = slices({2}, {0, 0});
  const Reading cut = reading_by({.device_matrix = {2}, .tensor_map = {{0}}}, {4});
  EXPECT_TRUE(repeats(cut, same));
  same.blank = {true, true};  // of one value: they may well be
  EXPECT_FALSE(repeats(cut, same));
  EXPECT_FALSE(repeats(cut, slices({2}, {0, 1})));
  EXPECT_FALSE(repeats(reading_by({.device_matrix = {2}, .tensor_map = {{}}}, {2}), same));
}

}  // namespace
}  // namespace reshardfs::testing
