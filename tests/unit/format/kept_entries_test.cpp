// SPDX-License-Identifier: Apache-2.0
#include "format/kept_entries.h"

#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KeptShape, ReadsLikeAShape) {
  const KeptShape kept{2, 3};
  EXPECT_THAT(kept, ElementsAre(2, 3));
  EXPECT_EQ(kept, (Shape{2, 3}));
  EXPECT_EQ(kept, (KeptShape{2, 3}));
  EXPECT_NE(kept, (KeptShape{3, 2}));
  EXPECT_EQ(to_string(kept), "[2, 3]");
  EXPECT_EQ(kept.front() * 10 + kept.back(), 23);
  const Shape copy = kept;
  EXPECT_THAT(copy, ElementsAre(2, 3));
}

TEST(KeptShape, IsThatOfAScalarAtFirst) {
  KeptShape kept;
  EXPECT_THAT(kept, IsEmpty());
  EXPECT_EQ(kept, KeptShape(Shape()));
  kept = Shape{4};
  EXPECT_THAT(kept, ElementsAre(4));
  kept = {5, 6};
  EXPECT_THAT(kept, ElementsAre(5, 6));
  kept = {};
  EXPECT_EQ(kept, Shape());
}

TEST(KeptShape, IsSharedByItsCopies) {
  KeptShape kept{2, 3};
  const KeptShape copy = kept;
  EXPECT_EQ(&copy.get(), &kept.get());
  const KeptShape moved = std::move(kept);
  EXPECT_EQ(&moved.get(), &copy.get());
  kept = {4};
  kept = copy;
  EXPECT_EQ(&kept.get(), &copy.get());
}

TEST(ShapeKinds, KeepEqualShapesOnce) {
  ShapeKinds kinds;
  const KeptShape first = kinds.keep(Shape{2, 3});
  const KeptShape other = kinds.keep(Shape{3, 2});
  const KeptShape again = kinds.keep(KeptShape{2, 3});
  EXPECT_THAT(other, ElementsAre(3, 2));
  EXPECT_EQ(&first.get(), &again.get());
  EXPECT_NE(&first.get(), &other.get());
  EXPECT_THAT(kinds.keep(Shape()), IsEmpty());
  EXPECT_EQ(&kinds.keep(Shape{3, 2}).get(), &other.get());
}

TEST(ShapeKinds, TakeAnyNumber) {
  ShapeKinds kinds;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t size = 0; size < 10'000; ++size) {
      ASSERT_THAT(kinds.keep(Shape{size}), ElementsAre(size));
    }
  }
}

}  // namespace
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

TEST(FileExtents, HoldAnyNumber) {
  FileExtents extents;
  EXPECT_THAT(extents, IsEmpty());
  extents.emplace_back(8, 4);
  EXPECT_THAT(extents, ElementsAre(ByteRange(8, 4)));
  extents.push_back({16, 2});
  EXPECT_THAT(extents, ElementsAre(ByteRange(8, 4), ByteRange(16, 2)));
  EXPECT_EQ(extents.front(), ByteRange(8, 4));
  EXPECT_EQ(extents.back(), ByteRange(16, 2));
  extents[0] = {9, 3};
  EXPECT_EQ(extents, (FileExtents{{9, 3}, {16, 2}}));
  extents.clear();
  EXPECT_EQ(extents, FileExtents());
}

TEST(FileExtents, TellAnEmptyOneAtTheStartFromNone) {
  FileExtents extents;
  extents.push_back({0, 0});
  EXPECT_EQ(extents.size(), 1U);
  EXPECT_NE(extents, FileExtents());
  extents.push_back({0, 5});
  EXPECT_THAT(extents, ElementsAre(ByteRange(0, 0), ByteRange(0, 5)));
}

TEST(FileExtents, AreListsLikeOthers) {
  std::mt19937 random(20251128);  // NOLINT(cert-msc51-cpp): the same each time
  for (int round = 0; round < 300; ++round) {
    std::vector<ByteRange> expected;
    FileExtents extents;
    for (std::size_t left = random() % 6; left > 0; --left) {
      const std::uint64_t offset = random() % 3;
      const std::uint64_t length = random() % 3;
      expected.emplace_back(offset, length);
      extents.emplace_back(offset, length);
    }
    ASSERT_THAT(extents, ElementsAreArray(expected));
    FileExtents copy = extents;
    ASSERT_EQ(copy, extents);
    const FileExtents moved = std::move(copy);
    ASSERT_EQ(moved, extents);
    copy = moved;
    ASSERT_EQ(copy, extents);
    copy.emplace_back(7, 7);
    ASSERT_EQ(copy.size(), extents.size() + 1);
    ASSERT_NE(copy, extents);
  }
}

}  // namespace
}  // namespace reshardfs
