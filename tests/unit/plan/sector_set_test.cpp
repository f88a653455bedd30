// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/sector_set.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

/// The bytes of a file of `size` in the units of which `bytes` has one.
std::uint64_t bytes_of_units(const std::set<std::uint64_t>& bytes, std::uint64_t unit,
                             std::uint64_t size) {
  std::set<std::uint64_t> units;
  for (const std::uint64_t byte : bytes) units.insert(byte / unit);
  std::uint64_t total = 0;
  for (const std::uint64_t number : units) {
    total += std::min((number + 1) * unit, size) - number * unit;
  }
  return total;
}

TEST(SectorSet, CountsWholeSectorsAndBlocks) {
  SectorSet set(100, {8, 32});
  EXPECT_EQ(set.bytes(), 0U);
  EXPECT_EQ(set.block_bytes(), 0U);
  set.add(ByteRange(7, 0));
  EXPECT_EQ(set.bytes(), 0U);
  set.add(ByteRange(7, 1));
  EXPECT_EQ(set.bytes(), 8U);
  set.add(ByteRange(7, 2));
  EXPECT_EQ(set.bytes(), 16U);
  EXPECT_EQ(set.block_bytes(), 32U);
  // The last one is cut by the file's end.
  set.add(ByteRange(99, 1));
  EXPECT_EQ(set.bytes(), 16U + 4U);
  EXPECT_EQ(set.block_bytes(), 32U + 4U);
}

TEST(SectorSet, LeavesOutWhatStandsInAGap) {
  SectorSet near(1000, {8, 8});
  near.add(StridedBytes{.offset = 0, .length = 1, .count = 10, .stride = 8});
  EXPECT_EQ(near.bytes(), 80U);
  SectorSet far(1000, {8, 8});
  far.add(StridedBytes{.offset = 0, .length = 1, .count = 10, .stride = 16});
  EXPECT_EQ(far.bytes(), 80U);
}

TEST(SectorSet, OfAnEmptyFileIsEmpty) {
  const SectorSet set(0, {8, 32});
  EXPECT_EQ(set.bytes(), 0U);
  EXPECT_EQ(set.block_bytes(), 0U);
}

TEST(SectorSet, IsThatOfEachByte) {
  constexpr unsigned kSeed = 7;
  RecordProperty("seed", static_cast<int>(kSeed));
  std::mt19937_64 random(kSeed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t size = 1 + below(3000);
    const std::uint64_t sector = 1 + below(20);
    const CacheGrain grain{sector, sector * (1 + below(6))};
    SectorSet set(size, grain);
    std::set<std::uint64_t> bytes;
    for (std::uint64_t i = 0; i <= below(6); ++i) {
      StridedBytes pieces;
      pieces.offset = below(size);
      pieces.length = 1 + below(std::min<std::uint64_t>(size - pieces.offset, 40));
      pieces.stride = pieces.length + below(60);
      pieces.count = 1 + below((size - pieces.offset - pieces.length) / pieces.stride + 1);
      set.add(pieces);
      for (std::uint64_t piece = 0; piece < pieces.count; ++piece) {
        for (std::uint64_t byte = 0; byte < pieces.length; ++byte) {
          bytes.insert(pieces.offset + piece * pieces.stride + byte);
        }
      }
    }
    ASSERT_EQ(set.bytes(), bytes_of_units(bytes, grain.sector, size)) << round;
    ASSERT_EQ(set.block_bytes(), bytes_of_units(bytes, grain.block, size)) << round;
  }
}

}  // namespace
}  // namespace reshardfs
