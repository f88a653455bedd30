// SPDX-License-Identifier: Apache-2.0
#include "layout/dimension_loops.h"

#include <set>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

/// The elements that loops reach, in any order.
std::set<std::int64_t> elements_of(const PerDimension<DimensionLoop>& loops, const Shape& shape) {
  std::set<std::int64_t> elements{0};
  for (const DimensionLoop& loop : loops) {
    std::int64_t stride = loop.step;
    for (std::size_t d = loop.dimension + 1; d < shape.size(); ++d) stride *= shape[d];
    std::set<std::int64_t> next;
    for (const std::int64_t element : elements) {
      for (std::int64_t i = 0; i < loop.count; ++i) next.insert(element + i * stride);
    }
    elements.swap(next);
  }
  return elements;
}

TEST(DimensionLoops, ReachTheElementsThatAreStridesApart) {
  int found = 0;
  for (const Shape& shape :
       {Shape{24}, Shape{4, 6}, Shape{2, 3, 4}, Shape{3, 1, 8}, Shape{1, 24}}) {
    for (std::int64_t stride = 1; stride < 24; ++stride) {
      for (std::int64_t count = 1; (count - 1) * stride < 24; ++count) {
        const auto loops = along_dimensions(count, stride, shape);
        if (!loops) continue;
        ++found;
        std::set<std::int64_t> expected;
        for (std::int64_t i = 0; i < count; ++i) expected.insert(i * stride);
        EXPECT_EQ(elements_of(*loops, shape), expected) << count << " x " << stride;
        for (const DimensionLoop& loop : *loops) {
          EXPECT_LE((loop.count - 1) * loop.step, shape[loop.dimension] - 1);
        }
      }
    }
  }
  EXPECT_GT(found, 200);
}

TEST(DimensionLoops, AreNoneWhereElementsLeaveTheirRowInTheMiddle) {
  EXPECT_FALSE(along_dimensions(4, 4, Shape{4, 6}));
  EXPECT_FALSE(along_dimensions(7, 1, Shape{4, 6}));
  EXPECT_FALSE(along_dimensions(2, 7, Shape{4, 6}));
  EXPECT_FALSE(along_dimensions(6, 7, Shape{7, 6}));
  EXPECT_TRUE(along_dimensions(3, 2, Shape{5}));
  EXPECT_TRUE(along_dimensions(12, 1, Shape{4, 6}));
  EXPECT_TRUE(along_dimensions(4, 6, Shape{4, 6}));
  EXPECT_TRUE(along_dimensions(1, 5, Shape{4, 6}));
}

}  // namespace
}  // namespace reshardfs
