// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/layout.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using ::testing::HasSubstr;

Layout layout_of(std::vector<std::int64_t> matrix, TensorMap map, std::int64_t shards = 0) {
  Layout layout;
  layout.device_matrix = std::move(matrix);
  layout.tensor_map = std::move(map);
  layout.optimizer_shard_size = shards;
  return layout;
}

std::string refusal(const Layout& layout) {
  try {
    check_layout(layout);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST(DeviceCount, IsTheProductOfTheAxes) {
  EXPECT_EQ(device_count(layout_of({2, 4}, {})), 8);
  EXPECT_EQ(device_count(layout_of({1}, {})), 1);
  EXPECT_EQ(device_count(layout_of({}, {})), 1);
  EXPECT_EQ(device_count(layout_of({1024, 1024}, {})), 1 << 20);
}

TEST(DeviceCount, RefusesImpossibleAxes) {
  EXPECT_THROW(device_count(layout_of({2, 0}, {})), Error);
  EXPECT_THROW(device_count(layout_of({-2, -2}, {})), Error);
  EXPECT_THROW(device_count(layout_of({1024, 1025}, {})), Error);
  EXPECT_THROW(device_count(layout_of({1LL << 40, 1LL << 40}, {})), Error);
}

TEST(CheckLayout, AcceptsWhatMindSporeWrites) {
  EXPECT_NO_THROW(check_layout(layout_of({2, 4}, {{0}, {}})));
  EXPECT_NO_THROW(check_layout(layout_of({2, 2, 2}, {{1, 0}, {}}, -1)));
  EXPECT_NO_THROW(check_layout(layout_of({2, 1, 2}, {{2}, {0, 1}}, 4)));
  EXPECT_NO_THROW(check_layout(layout_of({8}, {})));
}

TEST(CheckLayout, NamesTheOffendingNumber) {
  EXPECT_THAT(refusal(layout_of({2, 0}, {})), HasSubstr("axis of size 0"));
  EXPECT_THAT(refusal(layout_of({2, 4}, {{2}})), HasSubstr("axis 2"));
  EXPECT_THAT(refusal(layout_of({2, 4}, {{2}})), HasSubstr("[2, 4]"));
  EXPECT_THAT(refusal(layout_of({2, 4}, {{-1}})), HasSubstr("axis -1"));
  EXPECT_THAT(refusal(layout_of({2, 4}, {{0}, {0}})), HasSubstr("axis 0 twice"));
  EXPECT_THAT(refusal(layout_of({2, 4}, {{1, 1}})), HasSubstr("axis 1 twice"));
  EXPECT_THAT(refusal(layout_of({2}, {{0}}, -2)), HasSubstr("-2"));
  EXPECT_THAT(refusal(layout_of({1 << 21}, {})), HasSubstr("1048576 devices"));
}

TEST(CheckLayout, RefusesAbsurdNumbersOfDimensions) {
  EXPECT_THAT(refusal(layout_of(std::vector<std::int64_t>(33, 1), {})), HasSubstr("33 axes"));
  EXPECT_THAT(refusal(layout_of({1}, TensorMap(33))), HasSubstr("33 dimensions"));
}

TEST(CheckLayout, AcceptsAsManyDimensionsAsAreAllowed) {
  EXPECT_EQ(refusal(layout_of(std::vector<std::int64_t>(32, 1), TensorMap(32))), "accepted");
}

TEST(LayoutText, ShowsFlatAndNestedMaps) {
  EXPECT_EQ(to_string(layout_of({2, 4}, {{0}, {}}, 2)),
            "device matrix [2, 4], tensor map [0, -1], optimizer shard 2");
  EXPECT_EQ(to_string(layout_of({2, 2, 2}, {{1, 0}, {}})),
            "device matrix [2, 2, 2], tensor map [[1, 0], -1]");
  EXPECT_EQ(to_string(layout_of({8}, {})), "device matrix [8], tensor map []");
}

TEST(LayoutText, ShowsUnevenCutsAndFields) {
  Layout layout = layout_of({3}, {{0}, {}});
  layout.param_split_shape = {{}, {5, 3, 2}};
  layout.field = 4;
  EXPECT_EQ(to_string(layout),
            "device matrix [3], tensor map [0, -1], param_split_shape [5, 3, 2], 4 fields");
  layout = layout_of({16, 2}, {{1}, {0}});
  layout.uneven = {{false, std::vector<std::int64_t>(16, 7)}, {true, {}}};
  EXPECT_EQ(to_string(layout),
            "device matrix [16, 2], tensor map [1, 0], dimension 0 in lengths "
            "[7, 7, 7, 7, 7, 7, 7, 7, ... of 16], dimension 1 balanced");
}

TEST(LayoutText, ShowsEightLengthsInFull) {
  Layout layout = layout_of({8}, {{0}});
  layout.uneven = {{false, {1, 2, 3, 4, 5, 6, 7, 8}}};
  EXPECT_EQ(to_string(layout),
            "device matrix [8], tensor map [0], dimension 0 in lengths [1, 2, 3, 4, 5, 6, 7, 8]");
}

TEST(LayoutText, ShowsFieldsIfThereAreSeveral) {
  Layout layout = layout_of({2}, {{0}});
  layout.field = 1;
  EXPECT_EQ(to_string(layout), "device matrix [2], tensor map [0]");
  layout.field = 2;
  EXPECT_EQ(to_string(layout), "device matrix [2], tensor map [0], 2 fields");
}

}  // namespace
}  // namespace reshardfs
