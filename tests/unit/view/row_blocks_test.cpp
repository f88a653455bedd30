// SPDX-License-Identifier: Apache-2.0
#include "view/dcp/row_blocks.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

constexpr std::uint64_t kKib = 1024;
constexpr std::uint64_t kMib = 1024 * kKib;

std::int64_t blocks(std::int64_t rows, std::uint64_t bytes) {
  const std::int64_t each = rows_of_block(rows, bytes);
  return (rows + each - 1) / each;
}

TEST(RowBlocks, GrowInNumberAndSize) {
  EXPECT_EQ(blocks(4096, 0), 1);
  EXPECT_EQ(blocks(4096, 256 * kKib - 1), 1);
  EXPECT_EQ(blocks(4096, 256 * kKib), 2);
  EXPECT_EQ(blocks(4096, kMib), 4);
  EXPECT_EQ(blocks(4096, 16 * kMib - 1), 8);
  EXPECT_EQ(blocks(4096, 16 * kMib), 16);
  EXPECT_EQ(blocks(4096, 256 * kMib - 1), 32);
  EXPECT_EQ(blocks(4096, 256 * kMib), kMostRowBlocks);
  EXPECT_EQ(blocks(4096, std::numeric_limits<std::uint64_t>::max()), kMostRowBlocks);
}

/// Where these numbers divide the rows, ranks that share the rows evenly read nothing else.
TEST(RowBlocks, EndWhereTheRowsOfRanksEnd) {
  for (const std::int64_t ranks : {2, 4, 8, 16}) {
    EXPECT_EQ((4096 / ranks) % rows_of_block(4096, 32 * kMib), 0) << ranks;
  }
}

TEST(RowBlocks, HaveWholeRows) {
  EXPECT_EQ(rows_of_block(1, 256 * kMib), 1);
  EXPECT_EQ(rows_of_block(3, 256 * kMib), 1);
  EXPECT_EQ(rows_of_block(100, 256 * kMib), 2);
  EXPECT_EQ(rows_of_block(7, kMib), 2);
}

}  // namespace
}  // namespace reshardfs
