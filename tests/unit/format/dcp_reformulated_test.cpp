// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_reformulated.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/box_set.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A table with one tensor, behind the boxes of another one.
struct Stored {
  DcpTable table;
  DcpTensor tensor;

  Stored(Shape shape, const std::vector<Box>& boxes) {
    table.places.resize(1);
    table.bounds.resize(4);
    tensor = {"w", DType::kFloat32, std::move(shape), 1, boxes.size(), 4};
    for (const Box& box : boxes) {
      table.places.push_back({0, {1000 * table.places.size(), 900}});
      table.bounds.insert(table.bounds.end(), box.offsets.begin(), box.offsets.end());
      table.bounds.insert(table.bounds.end(), box.sizes.begin(), box.sizes.end());
    }
  }

  std::vector<Box> boxes() const {
    std::vector<Box> all;
    const auto dimensions = static_cast<std::ptrdiff_t>(tensor.shape.size());
    for (std::size_t i = 0; i < tensor.boxes; ++i) {
      const auto bounds = table.box_bounds(tensor, i);
      all.push_back({{bounds.begin(), bounds.begin() + dimensions},
                     {bounds.begin() + dimensions, bounds.end()}});
    }
    return all;
  }

  void expect_refused(const Shape& original, const char* words) {
    const std::vector<Box> before = boxes();
    const Shape shape = tensor.shape;
    const auto problem = undo_reformulation(table, tensor, original);
    ASSERT_TRUE(problem);
    EXPECT_THAT(*problem, HasSubstr(words));
    EXPECT_EQ(boxes(), before);
    EXPECT_EQ(tensor.shape, shape);
    EXPECT_TRUE(table.runs.empty());
  }
};

TEST(DcpReformulated, GetsItsShapeAndBoxesBack) {
  // [4, 6] in two parts of two rows; the second one is cut behind its fourth element.
  Stored stored({2, 1, 12},
                {{{1, 0, 4}, {1, 1, 8}}, {{0, 0, 0}, {1, 1, 12}}, {{1, 0, 0}, {1, 1, 4}}});
  EXPECT_EQ(undo_reformulation(stored.table, stored.tensor, {4, 6}), std::nullopt);
  EXPECT_EQ(stored.tensor.shape, (Shape{4, 6}));
  EXPECT_THAT(stored.boxes(), ElementsAre(Box{{2, 4}, {1, 2}}, Box{{3, 0}, {1, 6}},
                                          Box{{0, 0}, {2, 6}}, Box{{2, 0}, {1, 4}}));
  const auto place = [&](std::size_t box) { return stored.table.places[1 + box].item.offset(); };
  EXPECT_EQ(place(0), 1000U);
  EXPECT_EQ(place(1), 1000U);
  EXPECT_EQ(place(2), 2000U);
  EXPECT_EQ(place(3), 3000U);
  EXPECT_EQ(stored.table.runs.at(1).first, 0);
  EXPECT_EQ(stored.table.runs.at(2).first, 2);
  EXPECT_EQ(stored.table.runs.at(2).elements, 8);
  EXPECT_EQ(stored.table.runs.at(3).elements, 12);
  EXPECT_FALSE(stored.table.runs.contains(0));
}

TEST(DcpReformulated, IsRefusedIfItCannotHaveBeenThatShape) {
  const std::vector<Box> whole = {{{0, 0, 0}, {1, 1, 12}}, {{1, 0, 0}, {1, 1, 12}}};
  Stored({2, 1, 12}, whole).expect_refused({5, 6}, "[5, 6], which cannot be stored as [2, 1, 12]");
  Stored({2, 1, 12}, whole).expect_refused({4, 5}, "cannot be stored");
  Stored({2, 1, 12}, whole).expect_refused({4, 6, 1}, "cannot be stored");
  Stored({2, 1, 12}, whole).expect_refused({24}, "cannot be stored");
  Stored({0, 1, 12}, {}).expect_refused({0, 12}, "cannot be stored");
  Stored({1, 1, 4}, {{{0, 0, 0}, {1, 1, 4}}})
      .expect_refused({4'000'000'000, 4'000'000'000}, "cannot be stored");
}

TEST(DcpReformulated, IsRefusedIfAChunkHasTwoBlocks) {
  Stored({2, 1, 12}, {{{0, 0, 0}, {2, 1, 12}}}).expect_refused({4, 6}, "elements of two blocks");
}

TEST(DcpReformulated, IsRefusedInTooManyDimensions) {
  Shape stored(9, 1);
  stored.push_back(1);
  Stored(stored, {{Shape(10, 0), stored}}).expect_refused(Shape(9, 1), "it has 9 dimensions");
}

TEST(DcpReformulated, MayHaveNoElements) {
  Stored stored({2, 1, 0}, {});
  EXPECT_EQ(undo_reformulation(stored.table, stored.tensor, {4, 0}), std::nullopt);
  EXPECT_EQ(stored.tensor.shape, (Shape{4, 0}));
  EXPECT_EQ(stored.tensor.boxes, 0U);
}

}  // namespace
}  // namespace reshardfs
