// SPDX-License-Identifier: Apache-2.0
#include "layout/regions.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs::regions_tests {
namespace {

constexpr std::uint64_t kSeed = 20260131;

/// The index of each element of a region, by where it goes.
std::map<std::int64_t, Shape> elements_of(const Region& region) {
  std::map<std::int64_t, Shape> out;
  Nest all;
  all.to = region.to;
  Shape at(region.ranges.size(), 0);
  while (true) {
    Shape index;
    std::int64_t to = region.to;
    for (std::size_t d = 0; d < at.size(); ++d) {
      index.push_back(region.ranges[d].begin + at[d] * region.ranges[d].step);
      to += at[d] * region.ranges[d].to;
    }
    EXPECT_TRUE(out.emplace(to, index).second) << "two elements go to " << to;
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == region.ranges[d - 1].count) at[--d] = 0;
    if (d == 0) return out;
  }
}

/// Regions put together: no two go to the same place.
class Collected {
 public:
  void add(const Region& region) {
    ++regions_;
    for (const auto& [to, index] : elements_of(region)) {
      EXPECT_TRUE(elements_.emplace(to, index).second) << "two regions go to " << to;
    }
  }
  std::size_t regions() const { return regions_; }
  const std::map<std::int64_t, Shape>& elements() const { return elements_; }

 private:
  std::size_t regions_ = 0;
  std::map<std::int64_t, Shape> elements_;
};

Shape index_in(const Shape& shape, std::int64_t element) {
  Shape index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) index[d] = element % shape[d];
  return index;
}

class Regions : public ::testing::Test {
 protected:
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
  }
  Shape random_shape(std::int64_t most_dimensions = 4) {
    Shape shape;
    for (std::int64_t d = below(most_dimensions + 1); d > 0; --d) shape.push_back(1 + below(6));
    return shape;
  }
  /// Any step and place.
  Region random_region(const Shape& shape) {
    Region region;
    std::int64_t to = 1 + below(2);
    region.to = below(5);
    region.ranges.resize(shape.size());
    for (std::size_t d = shape.size(); d-- > 0;) {
      IndexRange& range = region.ranges[d];
      range.begin = below(shape[d]);
      range.step = 1 + below(3);
      range.count = 1 + below((shape[d] - 1 - range.begin) / range.step + 1);
      range.to = to;
      to *= range.count + below(2);
    }
    return region;
  }

  AxisPartition random_cut(std::int64_t size) {
    if (below(3) == 0) return AxisPartition::even(size, below(2) + 1);
    if (below(2) == 0) return AxisPartition::by_field(size, size / 2, 2);
    const std::int64_t first = below(size);
    return AxisPartition::of_lengths({first, size - first});
  }
  /// Of which no two overlap.
  std::vector<Box> random_boxes(const Shape& shape) {
    std::vector<Box> boxes;
    for (std::int64_t i = below(12); i > 0; --i) {
      Box box;
      for (const std::int64_t size : shape) {
        box.offsets.push_back(below(size));
        box.sizes.push_back(1 + below(size - box.offsets.back()));
      }
      boxes.push_back(box);
      if (BoxSet(shape, boxes).overlap()) boxes.pop_back();
    }
    return boxes;
  }

  std::mt19937_64 random_{kSeed};
};

TEST_F(Regions, OfARunAreFewAndInOrder) {
  for (int round = 0; round < 3000; ++round) {
    const Shape shape = random_shape();
    const std::int64_t elements = element_count(shape);
    const std::int64_t first = below(elements);
    const std::int64_t count = 1 + below(elements - first);
    Collected found;
    std::int64_t next = 7;
    for_each_region(first, count, 7, shape, [&](const Region& region) {
      EXPECT_EQ(region.to, next);
      next += region.elements();
      found.add(region);
    });
    EXPECT_EQ(next, 7 + count);
    EXPECT_LE(found.regions(), shape.empty() ? 1 : 2 * shape.size() - 1);
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(found.elements().at(7 + i), index_in(shape, first + i));
    }
  }
}

TEST_F(Regions, OfANestHaveItsElements) {
  for (int round = 0; round < 5000; ++round) {
    const Shape shape = random_shape();
    const std::int64_t elements = element_count(shape);
    Nest nest;
    nest.from = below(elements);
    nest.to = below(3);
    std::int64_t last = nest.from;
    std::int64_t to = 1;
    for (std::int64_t i = below(4); i > 0; --i) {
      Nest::Loop loop{2 + below(4), below(8), to};
      if (last + (loop.count - 1) * loop.from >= elements) continue;
      last += (loop.count - 1) * loop.from;
      to *= loop.count + below(2);
      nest.add(loop);
    }
    if (below(2) == 0) nest.join();
    Collected found;
    for_each_region(nest, shape, [&](const Region& region) { found.add(region); });
    std::size_t expected = 0;
    for_each_index(nest, [&](std::int64_t from, std::int64_t place) {
      ++expected;
      ASSERT_EQ(found.elements().at(place), index_in(shape, from));
    });
    ASSERT_EQ(found.elements().size(), expected);
  }
}

TEST_F(Regions, OfLoopsAlongDimensionsAreOne) {
  const Shape shape{6, 4, 10};
  std::size_t regions = 0;
  Nest nest;
  nest.from = 43;
  nest.add({3, 2, 1});
  nest.add({2, 40, 3});
  nest.add({2, 10, 6});
  for_each_region(nest, shape, [&](const Region& region) {
    ++regions;
    EXPECT_EQ(region.elements(), 12);
  });
  EXPECT_EQ(regions, 1U);
}

TEST_F(Regions, GoThroughTheShorterOfTwoLoopsAlongOneDimension) {
  std::size_t regions = 0;
  Nest nest;
  nest.add({16, 1, 1});
  nest.add({3, 32, 16});
  nest.add({50, 128, 48});
  for_each_region(nest, Shape{50, 128}, [&](const Region&) { ++regions; });
  EXPECT_EQ(regions, 3U);
}

/// The row of the full dimension that is a row of a part.
std::int64_t full_row(const AxisPartition& partition, std::int64_t part, std::int64_t row) {
  for (const AxisInterval& own : partition.intervals_of(part)) {
    const std::int64_t within = row - own.local_begin;
    if (within >= 0 && within < own.end - own.begin) return own.begin + within;
  }
  return -1;
}

void expect_segment(const AxisSegment& segment, std::int64_t row, const AxisPartition& source,
                    std::int64_t full) {
  const AxisInterval held = source.locate(full);
  EXPECT_EQ(segment.source_part, held.part);
  EXPECT_EQ(segment.source_length, source.part_length(held.part));
  EXPECT_EQ(row, held.local_begin + full - held.begin);
}

TEST_F(Regions, AreCutBySegments) {
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t size = 2 * (1 + below(12));
    const AxisPartition destination = random_cut(size);
    const AxisPartition source = random_cut(size);
    const std::int64_t part = below(destination.parts());
    if (destination.part_length(part) == 0) continue;
    const std::vector<std::vector<AxisSegment>> segments{overlay(destination, part, source)};
    Region region = random_region({destination.part_length(part)});
    const auto wanted = elements_of(region);
    std::size_t found = 0;
    for_each_segment(
        region, segments, [&](const Region& piece, std::span<const AxisSegment* const> at) {
          ASSERT_EQ(at.size(), 1U);
          for (const auto& [to, index] : elements_of(piece)) {
            ++found;
            expect_segment(*at[0], index[0], source, full_row(destination, part, wanted.at(to)[0]));
          }
        });
    EXPECT_EQ(found, wanted.size());
  }
}

void expect_inside(const Region& part, const Box& box) {
  for (const auto& [to, index] : elements_of(part)) {
    for (std::size_t d = 0; d < index.size(); ++d) {
      EXPECT_GE(index[d], box.offsets[d]);
      EXPECT_LT(index[d], box.offsets[d] + box.sizes[d]);
    }
  }
}

TEST_F(Regions, AreInBoxesOrInGaps) {
  std::size_t in_boxes = 0;
  std::size_t in_gaps = 0;
  for (int round = 0; round < 2000; ++round) {
    const Shape shape = random_shape(3);
    const std::vector<Box> boxes = random_boxes(shape);
    const BoxSet set(shape, boxes);
    const Region region = random_region(shape);
    Collected found;
    for_each_box(region, set, [&](const Region& part, std::size_t number) {
      found.add(part);
      expect_inside(part, boxes[number]);
    });
    const std::size_t covered = found.elements().size();
    for_each_gap(region, set, [&](const Region& gap) { found.add(gap); });
    in_boxes += covered;
    in_gaps += found.elements().size() - covered;
    EXPECT_EQ(found.elements(), elements_of(region));
  }
  EXPECT_GT(in_boxes, 1000U);
  EXPECT_GT(in_gaps, 1000U);
}

TEST_F(Regions, AreNestsInATensor) {
  for (int round = 0; round < 1000; ++round) {
    const Shape shape = random_shape();
    const Region region = random_region(shape);
    const auto wanted = elements_of(region);
    const Nest nest = nest_of(region, element_strides(shape));
    std::size_t found = 0;
    for_each_index(nest, [&](std::int64_t from, std::int64_t to) {
      ++found;
      ASSERT_EQ(index_in(shape, from), wanted.at(to));
    });
    EXPECT_EQ(found, wanted.size());
    EXPECT_EQ(nest.elements(), region.elements());
  }
}

TEST_F(Regions, HaveOneLoopForRowsThatFollow) {
  Region region;
  region.ranges.resize(3);
  region.ranges[0] = {1, 2, 1, 20};
  region.ranges[1] = {0, 4, 1, 5};
  region.ranges[2] = {0, 5, 1, 1};
  const Nest nest = nest_of(region, element_strides(Shape{3, 4, 5}));
  ASSERT_EQ(nest.loops().size(), 1U);
  EXPECT_EQ(nest.from, 20);
  EXPECT_EQ(nest.loops()[0].count, 40);
}

}  // namespace
}  // namespace reshardfs::regions_tests
