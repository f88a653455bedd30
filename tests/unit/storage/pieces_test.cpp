// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "storage/strided_ranges.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(StridedRanges, TellWhereTheyAre) {
  const StridedRanges pieces(ByteRange(100, 4), 5, {.source = 10, .memory = 6});
  EXPECT_EQ(pieces.span(), ByteRange(100, 44));
  EXPECT_EQ(pieces.offset_of(4), 140U);
  EXPECT_EQ(pieces.out_offset_of(4), 24U);
  EXPECT_EQ(pieces.moved_to(7).span(), ByteRange(7, 44));
}

TEST(StridedRanges, OfOneNeedNoStride) {
  EXPECT_EQ(StridedRanges(ByteRange(3, 8), 1, {}).span(), ByteRange(3, 8));
  EXPECT_THROW(StridedRanges(ByteRange(3, 8), 2, {}), Error);
}

TEST(StridedRanges, ArePartedAnywhere) {
  const StridedRanges pieces(ByteRange(100, 4), 5, {.source = 10, .memory = 6});
  const StridedRanges middle = pieces.part(1, 2);
  EXPECT_EQ(middle.span(), ByteRange(110, 14));
  EXPECT_EQ(middle.count(), 2U);
  const StridedRanges end = pieces.part(3, 9);
  EXPECT_EQ(end.span(), ByteRange(130, 14));
  EXPECT_EQ(end.count(), 2U);
}

TEST(StridedRanges, ThatCannotBeAreRefused) {
  EXPECT_THROW(StridedRanges(ByteRange(0, 4), 0, {.source = 4}), Error) << "none";
  EXPECT_THROW(StridedRanges(ByteRange(0, 4), 2, {.source = 3}), Error) << "they overlap";
  EXPECT_NO_THROW(StridedRanges(ByteRange(0, 4), 2, {.source = 4}));
  EXPECT_THROW(StridedRanges(ByteRange(0, 4), 3, {.source = kMost / 2 + 1}), Error);
  EXPECT_THROW(StridedRanges(ByteRange(0, 4), 2, {.source = kMost - 3}), Error);
  EXPECT_NO_THROW(StridedRanges(ByteRange(0, 4), 2, {.source = kMost - 4}));
  EXPECT_THROW(StridedRanges(ByteRange(1, 4), 2, {.source = kMost - 4}), Error);
  const StridedRanges pieces(ByteRange(0, 4), 2, {.source = 10});
  EXPECT_NO_THROW(pieces.moved_to(kMost - 14));
  EXPECT_THROW(pieces.moved_to(kMost - 13), Error);
}

TEST(StridedRanges, AreCopiedFromMemory) {
  const std::string from = "ab..cd..ef";
  std::string out = "--------";
  copy_ranges(reinterpret_cast<const std::byte*>(from.data()),
              StridedRanges(ByteRange::whole(2), 3, {.source = 4, .memory = 3}),
              reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out, "ab-cd-ef");
}

TEST(StridedRanges, OfAnyLengthAreCopiedAndNothingBetweenThem) {
  constexpr std::size_t kCount = 30;
  constexpr std::size_t kBetween = 40;
  std::string from(kCount * 300, '\0');
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<char>((i * 2654435761U) >> 13U);
  for (std::size_t length = 1; length <= 150; ++length) {
    const StridedRanges ranges(ByteRange(0, length), kCount,
                               {.source = length + 7, .memory = length + kBetween});
    std::string out(kCount * (length + kBetween), '-');
    std::string wanted = out;
    for (std::size_t i = 0; i < kCount; ++i) {
      wanted.replace(i * (length + kBetween), length, from, i * (length + 7), length);
    }
    copy_ranges(reinterpret_cast<const std::byte*>(from.data()), ranges,
                reinterpret_cast<std::byte*>(out.data()));
    EXPECT_TRUE(out == wanted) << length;
  }
}

}  // namespace
}  // namespace reshardfs
