// SPDX-License-Identifier: Apache-2.0
#include "layout/nest.h"

#include <cstring>
#include <random>
#include <set>
#include <vector>

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
namespace {

constexpr std::uint32_t kSeed = 20260131;

/// Copies one element after the other.
std::vector<std::byte> copied(const std::vector<std::byte>& from, std::size_t bytes,
                              const Nest& nest, std::size_t element) {
  std::vector<std::byte> out(bytes);
  for_each_index(nest, [&](std::int64_t at, std::int64_t to) {
    std::memcpy(out.data() + static_cast<std::size_t>(to) * element,
                from.data() + static_cast<std::size_t>(at) * element, element);
  });
  return out;
}

TEST(NestCopy, CopiesEveryElement) {
  std::mt19937 random(kSeed);
  const auto below = [&](unsigned end) { return static_cast<std::int64_t>(random() % end); };
  for (int round = 0; round < 2000; ++round) {
    const std::size_t element = std::size_t{1} << static_cast<unsigned>(below(5));
    Nest nest;
    std::int64_t from_end = 1;
    std::int64_t to_end = 1;
    for (std::int64_t i = below(4); i > 0; --i) {
      const Nest::Loop loop{1 + below(20), below(3) == 0 ? 1 : below(30), to_end};
      from_end += (loop.count - 1) * loop.from;
      to_end *= loop.count + below(2);
      nest.add(loop);
    }
    if (below(2) == 0) nest.join();
    std::vector<std::byte> from(static_cast<std::size_t>(from_end) * element);
    for (std::byte& byte : from) byte = static_cast<std::byte>(random());
    std::vector<std::byte> out(static_cast<std::size_t>(to_end) * element);
    copy_elements(from.data(), out.data(), nest, element);
    ASSERT_EQ(out, copied(from, out.size(), nest, element));
  }
}

TEST(NestCopy, TurnsAMatrix) {
  Nest nest;
  nest.add({33, 17, 1});
  nest.add({17, 1, 33});
  std::vector<std::byte> from(std::size_t{33} * 17);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  std::vector<std::byte> out(from.size());
  copy_elements(from.data(), out.data(), nest, 1);
  for (std::size_t row = 0; row < 33; ++row) {
    for (std::size_t column = 0; column < 17; ++column) {
      ASSERT_EQ(out[column * 33 + row], from[row * 17 + column]);
    }
  }
}

}  // namespace
}  // namespace reshardfs
