// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/byte_ranges.h"

#include <gtest/gtest.h>

#include "plan/source/source_table.h"
#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs::byte_ranges_tests {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

/// The bytes that the ranges name, read from the files by hand.
std::string bytes_of(const SourceRanges& ranges) {
  std::string out;
  for (const SourceRange& range : ranges.ranges) {
    for (std::uint64_t i = 0; i < range.count; ++i) {
      std::string piece(range.first.length(), '\0');
      range.file->source->read_at(range.first.offset() + i * range.stride,
                                  std::as_writable_bytes(std::span(piece)));
      out += piece;
    }
  }
  return out;
}

const Layout kRows{.device_matrix = {2}, .tensor_map = {{0}, {}}};

TEST(ByteRanges, AreTheBytesOfTheView) {
  const std::string top = counting_bytes(12);
  const std::string bottom = counting_bytes(12, 100);
  const auto set = memory_set(
      {{0, record("w", {2, 6}, "UInt8", top)}, {1, record("w", {2, 6}, "UInt8", bottom)}});
  const SourceTable source(set, Strategy({{{"w", kRows}}}, 0, false));
  const CellGridPtr grid = source.find("w")->grid;
  const SourceRanges whole = source_ranges(ShownTensor(grid), 10);
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(whole.ranges.size(), 2U);  // each rank's rows are one range
  EXPECT_EQ(bytes_of(whole), top + bottom);

  const std::vector<AxisPartition> columns{AxisPartition::even(4, 1), AxisPartition::even(6, 3)};
  const ShownTensor middle(grid, columns, {0, 1});
  const SourceRanges cut = source_ranges(middle, 10);
  std::string expected;
  for (const std::string& rows : {top, bottom}) expected += rows.substr(2, 2) + rows.substr(8, 2);
  EXPECT_EQ(bytes_of(cut), expected);
  const SourceRanges limited = source_ranges(middle, 1);
  EXPECT_FALSE(limited.complete);
  EXPECT_EQ(limited.ranges.size(), 1U);
}

TEST(ByteRanges, CountStoredBytes) {
  // Four bytes are stored for each element of old BFloat16, and a parameter in two records is told
  // as what lies between.
  const auto old = memory_set({{0, record("w", {3}, "BFloat16", counting_bytes(12))}});
  const SourceTable table(old, std::nullopt);
  const SourceRanges ranges = source_ranges(ShownTensor(table.find("w")->grid), 10);
  ASSERT_EQ(ranges.ranges.size(), 1U);
  EXPECT_EQ(ranges.ranges[0].first.length(), 12U);
  EXPECT_EQ(bytes_of(ranges), counting_bytes(12));
}

TEST(ByteRanges, CountStoredBytesBetweenPiecesToo) {
  const std::string stored = counting_bytes(64);
  const auto old = memory_set({{0, record("w", {4, 4}, "BFloat16", stored)}});
  const SourceTable table(old, std::nullopt);
  const ShownTensor column(table.find("w")->grid,
                           {AxisPartition::even(4, 1), AxisPartition::even(4, 4)}, {0, 2});
  const SourceRanges ranges = source_ranges(column, 10);
  ASSERT_EQ(ranges.ranges.size(), 1U);
  EXPECT_EQ(ranges.ranges[0].count, 4U);
  EXPECT_EQ(bytes_of(ranges), stored.substr(8, 4) + stored.substr(24, 4) + stored.substr(40, 4) +
                                  stored.substr(56, 4));
}

TEST(ByteRanges, ReachOverTheBordersOfRecords) {
  const std::string all = counting_bytes(12);
  const std::string first = record("w", {12}, "Int8", all.substr(0, 5));
  const std::string second = record("w", {12}, "Int8", all.substr(5, 3));
  const auto set = memory_set({{0, first + second + record("w", {12}, "Int8", all.substr(8))}});
  const SourceTable table(set, std::nullopt);
  const FileExtents& stored = set->files().front().index->entries().front().extents;
  ASSERT_EQ(stored.size(), 3U);
  const SourceRanges whole = source_ranges(ShownTensor(table.find("w")->grid), 10);
  ASSERT_EQ(whole.ranges.size(), 1U);
  EXPECT_EQ(whole.ranges[0].first.offset(), stored[0].offset());
  EXPECT_EQ(whole.ranges[0].first.end(), stored[2].offset() + 4);
  // Elements 4 to 7: the last one of the first record, and all of the second.
  const ShownTensor third(table.find("w")->grid, {AxisPartition::even(12, 3)}, {1});
  const SourceRanges middle = source_ranges(third, 10);
  ASSERT_EQ(middle.ranges.size(), 1U);
  EXPECT_EQ(middle.ranges[0].first.offset(), stored[0].offset() + 4);
  EXPECT_EQ(middle.ranges[0].first.end(), stored[1].offset() + 3);
  // From the first byte of the second record on.
  const ShownTensor rest(table.find("w")->grid, {AxisPartition::of_lengths({5, 7})}, {1});
  const SourceRanges from_second = source_ranges(rest, 10);
  ASSERT_EQ(from_second.ranges.size(), 1U);
  EXPECT_EQ(from_second.ranges[0].first.offset(), stored[1].offset());
}

TEST(ByteRanges, AreNotJoinedOverAGap) {
  const auto set = memory_set({{0, record("w", {8}, "UInt8", "abcdefgh")}});
  const SourceTable table(set, std::nullopt);
  const ShownTensor fields(table.find("w")->grid, {AxisPartition::by_field(8, 2, 2)}, {0});
  const SourceRanges ranges = source_ranges(fields, 10);
  EXPECT_EQ(ranges.ranges.size(), 2U);
  EXPECT_EQ(bytes_of(ranges), "abef");
}

TEST(ByteRanges, AreJoinedHoweverLongTheyAre) {
  const std::string top = counting_bytes(2'500'000);
  const std::string bottom = counting_bytes(2'500'000, 100);
  const auto set = memory_set({{0, record("w", {1, 2'500'000}, "UInt8", top)},
                               {1, record("w", {1, 2'500'000}, "UInt8", bottom)}});
  const SourceTable source(set, Strategy({{{"w", kRows}}}, 0, false));
  const SourceRanges whole = source_ranges(ShownTensor(source.find("w")->grid), 2);
  EXPECT_TRUE(whole.complete);
  ASSERT_EQ(whole.ranges.size(), 2U);
  EXPECT_TRUE(bytes_of(whole) == top + bottom);
}

TEST(ByteRanges, AreAllToldIfTheyAreAsManyAsAsked) {
  const auto set = memory_set(
      {{0, record("w", {1, 2}, "UInt8", "ab")}, {1, record("w", {1, 2}, "UInt8", "cd")}});
  const SourceTable source(set, Strategy({{{"w", kRows}}}, 0, false));
  const SourceRanges two = source_ranges(ShownTensor(source.find("w")->grid), 2);
  EXPECT_TRUE(two.complete);
  EXPECT_EQ(bytes_of(two), "abcd");
  EXPECT_FALSE(source_ranges(ShownTensor(source.find("w")->grid), 1).complete);
}

TEST(ByteRanges, LeaveOutWhatNoFileHas) {
  const auto set = memory_set({{0, record("w", {1, 2}, "UInt8", "ab")}});
  const SourceTable source(set, Strategy({{{"w", kRows}}}, 0, false));
  const SourceRanges ranges = source_ranges(ShownTensor(source.find("w")->grid), 10);
  EXPECT_TRUE(ranges.complete);
  EXPECT_EQ(bytes_of(ranges), "ab");
}

}  // namespace
}  // namespace reshardfs::byte_ranges_tests
