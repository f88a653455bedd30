// SPDX-License-Identifier: Apache-2.0
#include "format/file_extents.h"

#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
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
