// SPDX-License-Identifier: Apache-2.0
/// Layouts that slices can come from.
#include "strategy/guess_readings.h"

#include <algorithm>
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
  EXPECT_FALSE(found.left.front().optimizer);
}

TEST(GuessReadings, ExcludeLayoutsWhoseCopiesDiffer) {
  const Readings found = of({4, 2}, {0, 1, 0, 1}, {4, 4});
  EXPECT_EQ(found.fitting, 2U);  // over the inner or the outer two devices
  ASSERT_THAT(found.left, SizeIs(1));
  EXPECT_THAT(found.left.front().parts, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(found.left.front().layout.device_matrix, ElementsAre(2, 2));
}

TEST(GuessReadings, KeepAllOfEqualSlices) {
  EXPECT_THAT(of({4, 2}, {0, 0, 0, 0}, {4, 4}).left, SizeIs(2));
}

TEST(GuessReadings, HaveTheOrdersThatAnOptimizerMakes) {
  // Cut over all eight, or over some of them and by the optimizer over the others.
  const Readings found = of({2, 4}, kDifferent, {16, 4});
  EXPECT_EQ(std::count_if(found.left.begin(), found.left.end(),
                          [](const Reading& reading) { return reading.optimizer; }),
            static_cast<std::ptrdiff_t>(found.left.size()) - 1);
  EXPECT_GT(found.left.size(), 2U);
  EXPECT_THAT(found.left.front().parts, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(GuessReadings, HaveNoOptimizerCutOfOtherDimensions) {
  const Readings found = of({4, 2}, kDifferent, {4, 16});
  ASSERT_THAT(found.left, SizeIs(1));
  EXPECT_FALSE(found.left.front().optimizer);
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
  EXPECT_EQ(of({4, 4}, {0, 1, 2, 3}, {6, 4}).fitting, 0U);
  EXPECT_EQ(of({4, 4}, {0, 1, 2, 3}, {4, 12}).fitting, 0U);   // 3 parts of 4 devices
  EXPECT_EQ(of({4, 4}, {0, 1, 2, 3}, {16, 16}).fitting, 0U);  // 16 parts
  EXPECT_EQ(of({4, 4}, {0, 1, 2, 3}, {16}).fitting, 0U);
  EXPECT_EQ(of({0, 4}, {0, 0, 0, 0}, {0, 4}).fitting, 0U);
}

TEST(GuessReadings, ReadLengthsOfUnevenCuts) {
  DeviceSlices uneven{{{3, 2}, {2, 2}, {2, 2}, {2, 2}}, {0, 1, 2, 3}, {false, false, false, false}};
  const Readings balanced = readings_of(4, uneven, {9, 2});
  ASSERT_THAT(balanced.left, SizeIs(1));
  EXPECT_TRUE(balanced.left.front().layout.uneven.front().balanced);
  std::swap(uneven.shapes[0], uneven.shapes[1]);
  const Readings listed = readings_of(4, uneven, {9, 2});
  ASSERT_THAT(listed.left, SizeIs(1));
  EXPECT_THAT(listed.left.front().layout.uneven.front().lengths, ElementsAre(2, 3, 2, 2));
  EXPECT_THAT(readings_of(4, uneven, {10, 2}).left, IsEmpty());
}

TEST(GuessReadings, RefuseTwoUnevenDimensions) {
  const DeviceSlices uneven{{{3, 2}, {2, 3}}, {0, 1}, {false, false}};
  EXPECT_EQ(readings_of(2, uneven, {5, 5}).fitting, 0U);
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
