// SPDX-License-Identifier: Apache-2.0
#include "layout/axis_partition.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

TEST(AxisPartition, CutsEvenly) {
  const AxisPartition partition = AxisPartition::even(12, 4);
  EXPECT_EQ(partition.size(), 12);
  EXPECT_EQ(partition.part_length(3), 3);
  EXPECT_EQ(partition.locate(8).part, 2);
  EXPECT_EQ(partition.locate(8).begin, 6);
  ASSERT_EQ(partition.intervals_of(1).size(), 1U);
  EXPECT_EQ(partition.intervals_of(1)[0].begin, 3);
  EXPECT_EQ(partition.intervals_of(1)[0].end, 6);
}

TEST(AxisPartition, RefusesAnUnevenCut) {
  EXPECT_THROW(AxisPartition::even(12, 5), Error);
  EXPECT_THROW(AxisPartition::even(12, 0), Error);
  EXPECT_THROW(AxisPartition::even(-12, 4), Error);
}

TEST(AxisPartition, TakesGivenLengthsAndSkipsEmptyParts) {
  const AxisPartition partition = AxisPartition::of_lengths({4, 0, 3});
  EXPECT_EQ(partition.size(), 7);
  EXPECT_EQ(partition.part_length(1), 0);
  EXPECT_TRUE(partition.intervals_of(1).empty());
  EXPECT_EQ(partition.locate(3).part, 0);
  EXPECT_EQ(partition.locate(4).part, 2);
}

TEST(AxisPartition, StoresEachGivenLengthFromItsFirstRowOn) {
  const AxisPartition partition = AxisPartition::of_lengths({4, 0, 3});
  EXPECT_EQ(partition.parts(), 3);
  EXPECT_EQ(partition.intervals_of(0), (std::vector<AxisInterval>{{0, 4, 0, 0}}));
  EXPECT_EQ(partition.intervals_of(2), (std::vector<AxisInterval>{{4, 7, 2, 0}}));
  for (std::int64_t row = 0; row < 7; ++row) {
    EXPECT_EQ(partition.locate(row),
              row < 4 ? (AxisInterval{0, 4, 0, 0}) : (AxisInterval{4, 7, 2, 0}));
  }
}

TEST(AxisPartition, FindsEachRowOfEachField) {
  // [field][device][2 rows]; a device has its rows of the second field behind those of the first.
  const AxisPartition fields = AxisPartition::by_field(12, 2, 3);
  for (std::int64_t row = 0; row < 12; ++row) {
    const std::int64_t begin = row / 2 * 2;
    EXPECT_EQ(fields.locate(row), (AxisInterval{begin, begin + 2, row / 2 % 3, row / 6 * 2}));
  }
  EXPECT_EQ(fields.intervals_of(2), (std::vector<AxisInterval>{{4, 6, 2, 0}, {10, 12, 2, 2}}));
}

TEST(AxisPartition, HasNoIntervalsWithoutRows) {
  EXPECT_TRUE(AxisPartition::even(0, 3).intervals_of(1).empty());
  EXPECT_TRUE(AxisPartition::by_field(0, 2, 3).intervals_of(1).empty());
  EXPECT_TRUE(AxisPartition::of_lengths({0, 0}).intervals_of(1).empty());
}

TEST(AxisPartition, LimitsHowManyIntervalsFieldsMayHave) {
  // Without rows there is nothing to be kept.
  EXPECT_EQ(AxisPartition::by_field(0, 1 << 21, 2).parts(), 2);
  EXPECT_THROW(AxisPartition::by_field(0, (1 << 21) + 1, 2), Error);
}

TEST(AxisPartition, RefusesNegativeAndOverflowingLengths) {
  EXPECT_THROW(AxisPartition::of_lengths({3, -1}), Error);
  EXPECT_THROW(AxisPartition::of_lengths({INT64_MAX, 1}), Error);
}

TEST(AxisPartition, OverlaysFieldsOntoPlainParts) {
  // 2 fields of 6 rows, over 3 devices: device 1 has rows 2, 3 of each field.
  const AxisPartition fields = AxisPartition::by_field(12, 2, 3);
  EXPECT_EQ(fields.part_length(1), 4);
  EXPECT_EQ(overlay(fields, 1, AxisPartition::even(12, 1)),
            (std::vector<AxisSegment>{{0, 2, 0, 2, 12}, {2, 2, 0, 8, 12}}));
  EXPECT_EQ(overlay(AxisPartition::even(12, 4), 1, fields),
            (std::vector<AxisSegment>{{0, 1, 1, 1, 4}, {1, 2, 2, 0, 4}}));
  EXPECT_THROW(AxisPartition::by_field(12, 5, 3), Error);
}

TEST(AxisPartition, OverlaysPartsWithoutCommonFactor) {
  const auto segments = overlay(AxisPartition::even(15, 3), 1, AxisPartition::even(15, 5));
  EXPECT_EQ(segments,
            (std::vector<AxisSegment>{{0, 1, 1, 2, 3}, {1, 3, 2, 0, 3}, {4, 1, 3, 0, 3}}));
}

TEST(AxisPartition, OverlayOfEqualCutsIsOneSegment) {
  const auto segments = overlay(AxisPartition::even(8, 2), 1, AxisPartition::even(8, 2));
  EXPECT_EQ(segments, (std::vector<AxisSegment>{{0, 4, 1, 0, 4}}));
}

TEST(AxisPartition, OverlayJoinsWhatFollowsInTheTensorAndInStorage) {
  // All fields on one device: two intervals, which are one stretch.
  EXPECT_EQ(overlay(AxisPartition::even(12, 1), 0, AxisPartition::by_field(12, 2, 1)),
            (std::vector<AxisSegment>{{0, 12, 0, 0, 12}}));
  // Beside each other in storage, but of two parts; or of one part, but not beside each other.
  EXPECT_EQ(overlay(AxisPartition::even(12, 1), 0, AxisPartition::even(12, 2)),
            (std::vector<AxisSegment>{{0, 6, 0, 0, 6}, {6, 6, 1, 0, 6}}));
  EXPECT_EQ(overlay(AxisPartition::by_field(8, 2, 2), 0, AxisPartition::even(8, 1)),
            (std::vector<AxisSegment>{{0, 2, 0, 0, 8}, {2, 2, 0, 4, 8}}));
  // Rows 0, 1, 6, 7, 12, 13, 18, 19: those of part 1 in the middle follow each other.
  EXPECT_EQ(overlay(AxisPartition::by_field(24, 4, 3), 0, AxisPartition::by_field(24, 3, 2)),
            (std::vector<AxisSegment>{{0, 2, 0, 0, 12}, {2, 4, 1, 2, 12}, {6, 2, 0, 10, 12}}));
}

TEST(AxisPartition, OverlayCoversEveryRowOnceAndInOrder) {
  for (const std::int64_t from : {1, 2, 3, 4, 6, 12}) {
    for (const std::int64_t to : {1, 2, 3, 4, 6, 12}) {
      const AxisPartition source = AxisPartition::even(24, from);
      const AxisPartition destination = AxisPartition::even(24, to);
      for (std::int64_t part = 0; part < to; ++part) {
        std::int64_t row = 0;
        for (const AxisSegment& s : overlay(destination, part, source)) {
          ASSERT_EQ(s.destination_begin, row);
          ASSERT_EQ(s.source_part * (24 / from) + s.source_begin, part * (24 / to) + row);
          row += s.length;
        }
        ASSERT_EQ(row, 24 / to);
      }
    }
  }
}

TEST(AxisPartition, OverlayOfAnEmptyAxisIsEmpty) {
  EXPECT_TRUE(overlay(AxisPartition::even(0, 2), 1, AxisPartition::even(0, 4)).empty());
}

TEST(AxisPartition, IsCountedInGroupsOfRows) {
  // Three elements a row, two a group: every second row begins a group.
  const auto even = AxisPartition::even(8, 2).in_groups(3, 2);
  ASSERT_TRUE(even);
  EXPECT_EQ(*even, AxisPartition::even(12, 2));
  EXPECT_EQ(AxisPartition::even(8, 8).in_groups(3, 2), std::nullopt);
  EXPECT_EQ(AxisPartition::even(8, 8).first_cut_group(3, 2), 1);
  EXPECT_EQ(AxisPartition::even(8, 8).in_groups(4, 2), AxisPartition::even(16, 8));
  EXPECT_EQ(AxisPartition::even(3, 1).in_groups(1, 2), std::nullopt);

  const auto lengths = AxisPartition::of_lengths({2, 0, 6}).in_groups(1, 2);
  ASSERT_TRUE(lengths);
  EXPECT_EQ(*lengths, AxisPartition::of_lengths({1, 0, 3}));
  EXPECT_EQ(AxisPartition::of_lengths({2, 3, 3}).first_cut_group(1, 2), 5);
  EXPECT_EQ(AxisPartition::of_lengths({2, 3, 3}).in_groups(1, 2), std::nullopt);
  EXPECT_EQ(AxisPartition::of_lengths({1}).first_cut_group(1, 2), 1);

  const auto fields = AxisPartition::by_field(24, 3, 2).in_groups(1, 2);
  ASSERT_TRUE(fields);
  EXPECT_EQ(*fields, AxisPartition::by_field(12, 3, 2));
  EXPECT_EQ(AxisPartition::by_field(18, 3, 2).in_groups(1, 2), std::nullopt);
  // One part is in the order of the dimension, whatever its fields are.
  EXPECT_EQ(AxisPartition::by_field(18, 6, 1).in_groups(1, 2), AxisPartition::even(9, 1));
}

}  // namespace
}  // namespace reshardfs
