// SPDX-License-Identifier: Apache-2.0
#include "layout/box_set.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::set<std::size_t> met(const BoxSet& boxes, const Shape& begin, const Shape& end) {
  std::set<std::size_t> numbers;
  boxes.visit({begin, end}, [&](std::size_t number) {
    EXPECT_TRUE(numbers.insert(number).second);
    return true;
  });
  return numbers;
}

/// A ring of four boxes around a hole: no cut from side to side parts them.
std::vector<Box> pinwheel() {
  return {{{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}};
}

TEST(BoxSet, FindsWhatARangeMeets) {
  const BoxSet boxes({3, 3}, pinwheel());
  EXPECT_THAT(met(boxes, {0, 0}, {3, 3}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(met(boxes, {0, 0}, {1, 1}), ElementsAre(0));
  EXPECT_THAT(met(boxes, {0, 1}, {1, 3}), ElementsAre(0, 1));
  EXPECT_THAT(met(boxes, {1, 1}, {2, 2}), IsEmpty());
  EXPECT_THAT(met(boxes, {1, 1}, {3, 2}), ElementsAre(2));
  EXPECT_THAT(met(boxes, {2, 0}, {3, 3}), ElementsAre(2, 3));
}

TEST(BoxSet, StopsWhenItIsTold) {
  const BoxSet boxes({3, 3}, pinwheel());
  int visits = 0;
  boxes.visit({Shape{0, 0}, Shape{3, 3}}, [&](std::size_t) { return ++visits < 2; });
  EXPECT_EQ(visits, 2);
}

TEST(BoxSet, CountsWhatNoBoxHas) {
  std::vector<Box> list = pinwheel();
  EXPECT_EQ(BoxSet({3, 3}, list).uncovered(), 1);
  list.push_back({{1, 1}, {1, 1}});
  EXPECT_EQ(BoxSet({3, 3}, list).uncovered(), 0);
  EXPECT_EQ(BoxSet({3, 0}, {}).uncovered(), 0);
  EXPECT_EQ(BoxSet({3, 2}, {}).uncovered(), 6);
  EXPECT_EQ(BoxSet({}, {}).uncovered(), 1);
  EXPECT_EQ(BoxSet({}, {{{}, {}}}).uncovered(), 0);
}

TEST(BoxSet, FindsAnOverlap) {
  std::vector<Box> list = pinwheel();
  EXPECT_FALSE(BoxSet({3, 3}, list).overlap());
  list.push_back({{1, 1}, {1, 2}});
  EXPECT_EQ(BoxSet({3, 3}, list).overlap(), std::pair(std::size_t{1}, std::size_t{4}));
  EXPECT_TRUE(BoxSet({}, {{{}, {}}, {{}, {}}}).overlap());
}

TEST(BoxSet, GivesBackTheBoxes) {
  const BoxSet boxes({3, 3}, pinwheel());
  ASSERT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes.box(2), pinwheel()[2]);
  EXPECT_EQ(to_string(boxes.box(2)), "[1, 2] at [2, 1]");
  EXPECT_TRUE(boxes == BoxSet({3, 3}, pinwheel()));
  EXPECT_FALSE(boxes == BoxSet({3, 4}, pinwheel()));
  EXPECT_FALSE(BoxSet({}, {}) == BoxSet({}, {{{}, {}}}));
}

TEST(BoxSet, RefusesABoxOutsideTheTensor) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<Box> wrong{{{0, 0}, {4, 1}},       {{1, 0}, {3, 1}},     {{0, -1}, {1, 1}},
                               {{0, kMost}, {1, 1}},   {{0, 0}, {1, kMost}}, {{0}, {1}},
                               {{0, 0, 0}, {1, 1, 1}}, {{0, 0}, {1, -1}}};
  for (const Box& box : wrong) {
    test::expect_error(ErrorKind::kBadInput, {to_string(box), "[3, 3]"}, [&] {
      BoxSet({3, 3}, {box});
    });
  }
}

/// Boxes that halve a tensor at random places.
void divide(const Box& box, std::size_t count, std::mt19937& random, std::vector<Box>& boxes) {
  const std::size_t d = random() % box.sizes.size();
  if (count < 2 || box.sizes[d] < 2) {
    boxes.push_back(box);
    return;
  }
  Box low = box;
  Box high = box;
  low.sizes[d] = 1 + static_cast<std::int64_t>(random()) % (box.sizes[d] - 1);
  high.offsets[d] += low.sizes[d];
  high.sizes[d] -= low.sizes[d];
  divide(low, count / 2, random, boxes);
  divide(high, count - count / 2, random, boxes);
}

TEST(BoxSet, FindsTheSameAsALookAtEachBox) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::size_t dimensions = 1 + random() % 4;
    Box whole;
    for (std::size_t d = 0; d < dimensions; ++d) {
      whole.offsets.push_back(0);
      whole.sizes.push_back(1 + static_cast<std::int64_t>(random() % 40));
    }
    std::vector<Box> list;
    divide(whole, 1 + random() % 100, random, list);
    std::shuffle(list.begin(), list.end(), random);
    EXPECT_EQ(BoxSet(whole.sizes, list).uncovered(), 0);
    list.resize(list.size() - random() % list.size());
    const BoxSet boxes(whole.sizes, list);
    EXPECT_FALSE(boxes.overlap());
    for (int query = 0; query < 20; ++query) {
      Shape begin;
      Shape end;
      for (const std::int64_t size : whole.sizes) {
        begin.push_back(static_cast<std::int64_t>(random()) % size);
        end.push_back(begin.back() + 1 +
                      static_cast<std::int64_t>(random()) % (size - begin.back()));
      }
      std::set<std::size_t> expected;
      for (std::size_t i = 0; i < list.size(); ++i) {
        bool meets = true;
        for (std::size_t d = 0; d < dimensions; ++d) {
          meets = meets && list[i].offsets[d] < end[d] &&
                  begin[d] < list[i].offsets[d] + list[i].sizes[d];
        }
        if (meets) expected.insert(i);
      }
      ASSERT_EQ(met(boxes, begin, end), expected) << "round " << round;
    }
    // A box that shares an element with another one.
    const Box& twin = list[random() % list.size()];
    Box extra{twin.offsets, Shape(dimensions, 1)};
    if (extra == twin) continue;
    list.push_back(extra);
    EXPECT_TRUE(BoxSet(whole.sizes, list).overlap());
  }
}

/// How many boxes the first elements of all boxes meet. With a look at each box for each other one
/// it would take longer than a test may.
std::size_t met_in_all(const std::vector<Box>& list, const Shape& full) {
  const BoxSet boxes(full, list);
  EXPECT_FALSE(boxes.overlap());
  EXPECT_EQ(boxes.uncovered(), 0);
  std::size_t count = 0;
  for (const Box& box : list) {
    Shape end = box.offsets;
    for (std::int64_t& at : end) ++at;
    count += met(boxes, box.offsets, end).size();
  }
  return count;
}

TEST(BoxSet, BearsAHundredThousandBoxesInEveryDirection) {
  constexpr std::int64_t kCount = 100'000;
  std::vector<Box> rows;
  std::vector<Box> columns;
  std::vector<Box> tiles;
  for (std::int64_t i = 0; i < kCount; ++i) {
    rows.push_back({{i, 0}, {1, kCount}});
    columns.push_back({{0, i}, {kCount, 1}});
  }
  for (std::int64_t i = 0; i < 300; ++i) {
    for (std::int64_t j = 0; j < 300; ++j) tiles.push_back({{i * 2, j * 3}, {2, 3}});
  }
  EXPECT_EQ(met_in_all(rows, {kCount, kCount}), rows.size());
  EXPECT_EQ(met_in_all(columns, {kCount, kCount}), columns.size());
  EXPECT_EQ(met_in_all(tiles, {600, 900}), tiles.size());
}

}  // namespace
}  // namespace reshardfs
