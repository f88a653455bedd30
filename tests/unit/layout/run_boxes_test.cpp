// SPDX-License-Identifier: Apache-2.0
#include "layout/run_boxes.h"

#include <cstddef>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The elements of a box, by their places in the tensor's C order.
std::vector<std::int64_t> elements_of(const Box& box, const Shape& shape) {
  std::vector<std::int64_t> all = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t element : all) {
      for (std::int64_t i = 0; i < box.sizes[d]; ++i) {
        next.push_back(element * shape[d] + box.offsets[d] + i);
      }
    }
    all = std::move(next);
  }
  return all;
}

TEST(RunBoxes, HaveEachElementOfEachRunInOrder) {
  for (const Shape& shape :
       {Shape{}, {1}, {7}, {3, 4}, {1, 5}, {5, 1}, {2, 3, 4}, {3, 1, 4}, {2, 2, 1, 3}}) {
    const std::int64_t count = element_count(shape);
    for (std::int64_t first = 0; first <= count; ++first) {
      for (std::int64_t last = first; last <= count; ++last) {
        std::vector<std::int64_t> got;
        const std::vector<Box> boxes = boxes_of_run(shape, first, last);
        EXPECT_LE(boxes.size(), shape.empty() ? 1 : 2 * shape.size() - 1);
        for (const Box& box : boxes) {
          const auto elements = elements_of(box, shape);
          EXPECT_FALSE(elements.empty());
          got.insert(got.end(), elements.begin(), elements.end());
        }
        ASSERT_EQ(got.size(), static_cast<std::size_t>(last - first));
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i], first + static_cast<std::int64_t>(i));
        }
      }
    }
  }
}

TEST(RunBoxes, AreAsFewAsThereCanBe) {
  EXPECT_THAT(boxes_of_run({3, 4}, 4, 12), ElementsAre(Box{{1, 0}, {2, 4}}));
  EXPECT_THAT(boxes_of_run({3, 4}, 2, 9),
              ElementsAre(Box{{0, 2}, {1, 2}}, Box{{1, 0}, {1, 4}}, Box{{2, 0}, {1, 1}}));
  EXPECT_THAT(boxes_of_run({2, 3, 4}, 0, 24), ElementsAre(Box{{0, 0, 0}, {2, 3, 4}}));
  EXPECT_THAT(boxes_of_run({3, 0}, 0, 0), IsEmpty());
}

}  // namespace
}  // namespace reshardfs
