// SPDX-License-Identifier: Apache-2.0
#include "fuse/opening_table.h"

#include <array>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using Entries = std::array<OpeningTable::Entry, 5>;

TEST(OpeningTable, CountsByTree) {
  Entries entries;
  OpeningTable table(entries);
  EXPECT_TRUE(table.add(10, 0));
  EXPECT_TRUE(table.add(12, 0));
  EXPECT_TRUE(table.add(14, 7));
  EXPECT_EQ(table.of(0), 2U);
  EXPECT_EQ(table.of(7), 1U);
  EXPECT_EQ(table.of(1), 0U);
  EXPECT_EQ(table.tree_of(14), 7U);
  EXPECT_EQ(table.remove(10), 0U);
  EXPECT_EQ(table.remove(10), std::nullopt);
  EXPECT_EQ(table.tree_of(10), std::nullopt);
  EXPECT_EQ(table.of(0), 1U);
}

TEST(OpeningTable, CountsThoseThatNeedTheirTree) {
  Entries entries;
  OpeningTable table(entries);
  EXPECT_TRUE(table.add(opening_handle(10, true), 3));
  EXPECT_TRUE(table.add(opening_handle(12, false), 4));
  EXPECT_EQ(table.of(3), 1U);
  EXPECT_EQ(table.needing(3), 0U);
  EXPECT_EQ(table.needing(4), 1U);
  EXPECT_EQ(table.count(), 2U);
}

TEST(OpeningTable, TakesOneTwiceAsOne) {
  Entries entries;
  OpeningTable table(entries);
  EXPECT_TRUE(table.add(10, 3));
  EXPECT_FALSE(table.add(10, 3));
  EXPECT_EQ(table.of(3), 1U);
  table.remove(10);
  EXPECT_EQ(table.of(3), 0U);
}

TEST(OpeningTable, IsReadByAnotherProcess) {
  Entries entries;
  OpeningTable first(entries);
  first.add(10, 0);
  first.add(12, 5);
  first.add(14, 5);
  first.remove(12);
  OpeningTable second(entries);
  EXPECT_EQ(second.of(0), 1U);
  EXPECT_EQ(second.of(5), 1U);
  EXPECT_FALSE(second.add(14, 5));
  EXPECT_TRUE(second.add(16, 5));
  first.reread();
  EXPECT_EQ(first.of(5), 2U);
}

TEST(OpeningTable, ForgetsBeyondItsEndOnlyForOthers) {
  Entries entries;
  OpeningTable table(entries);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(table.add(i, 1));
  EXPECT_EQ(table.of(1), 10U);
  EXPECT_EQ(OpeningTable(entries).of(1), 4U);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(table.remove(i), 1U);
  EXPECT_EQ(OpeningTable(entries).of(1), 0U);
  EXPECT_TRUE(table.add(99, 1));
  EXPECT_EQ(OpeningTable(entries).of(1), 1U);
  OpeningTable alone(std::span<OpeningTable::Entry>{});
  EXPECT_TRUE(alone.add(1, 1));
  EXPECT_EQ(alone.of(1), 1U);
}

TEST(OpeningTable, UsesPlacesAgain) {
  Entries entries;
  OpeningTable table(entries);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    table.add(i, i);
    table.remove(i);
  }
  EXPECT_EQ(entries[0].handle, 1U);
  OpeningTable second(entries);
  EXPECT_TRUE(second.add(7, 7));
  EXPECT_EQ(entries[0].handle, 1U) << "a place that another process has left";
}

TEST(OpeningTable, TrustsNoCountBeyondItsEnd) {
  Entries entries;
  entries[0].handle = 1'000'000;
  entries[4] = {.handle = 9, .tree_plus_1 = 4};
  OpeningTable table(entries);
  EXPECT_EQ(table.tree_of(9), 3U);
  EXPECT_EQ(table.count(), 1U);
}

TEST(OpeningTable, ReadsAgainWhatAnotherProcessHasClosed) {
  Entries entries;
  OpeningTable first(entries);
  first.add(9, 1);
  first.add(10, 1);
  first.remove(9);
  OpeningTable second(entries);
  second.remove(10);
  first.reread();
  EXPECT_EQ(first.count(), 0U);
  EXPECT_TRUE(first.add(11, 1));
  EXPECT_TRUE(first.add(12, 2));
  EXPECT_TRUE(first.add(13, 2));
  EXPECT_EQ(OpeningTable(entries).count(), 3U) << "each has a place of its own";
}

TEST(OpeningTable, TakesManyThreads) {
  std::vector<OpeningTable::Entry> entries(10'000);
  OpeningTable table(entries);
  std::vector<std::thread> threads;
  for (std::uint64_t own = 0; own < 4; ++own) {
    threads.emplace_back([&table, own] {
      for (std::uint64_t i = 0; i < 2000; ++i) {
        table.add(i * 4 + own, own);
        if (i % 2 == 0) table.remove(i * 4 + own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const OpeningTable again(entries);
  for (std::uint64_t own = 0; own < 4; ++own) EXPECT_EQ(again.of(own), 1000U);
}

TEST(OpeningHandle, IsThatOfTheRequestHoweverOftenItIsSent) {
  EXPECT_EQ(opening_handle(8, false), 8U);
  EXPECT_EQ(opening_handle(8 | std::uint64_t{1} << 63, false), 8U);
  EXPECT_NE(opening_handle(8, true), opening_handle(8, false));
  EXPECT_TRUE(holds_something(opening_handle(8, true)));
  EXPECT_FALSE(holds_something(opening_handle(8, false)));
}

}  // namespace
}  // namespace reshardfs
