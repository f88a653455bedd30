// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/run_maker.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs::run_maker_tests {
namespace {

constexpr std::uint32_t kSeed = 20260131;

constexpr std::uint64_t kElement = 4;

/// The source byte of each byte of the destination, from its runs.
std::vector<std::int64_t> bytes_of(const std::vector<SourceNest>& nests, const ByteRange& wanted) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(wanted.length()), -1);
  const auto visit = [&](const StridedRun& run) {
    EXPECT_GE(run.source_stride, run.length);
    for (std::uint64_t i = 0; i < run.count; ++i) {
      for (std::uint64_t k = 0; k < run.length; ++k) {
        const std::uint64_t to = run.destination_offset + i * run.destination_stride + k;
        std::int64_t& byte = bytes.at(static_cast<std::size_t>(to - wanted.offset()));
        EXPECT_EQ(byte, -1) << "byte " << to << " twice";
        byte = run.literal != nullptr
                   ? 1000 + static_cast<std::int64_t>((*run.literal)[k % run.literal->size()])
                   : static_cast<std::int64_t>(run.source_offset + i * run.source_stride + k);
      }
    }
  };
  RunMaker runs(wanted, kElement, visit);
  for (const SourceNest& nest : nests) runs.take(nest);
  runs.finish();
  return bytes;
}

TEST(RunMaker, LeavesOutWhatIsNotWanted) {
  std::mt19937 random(kSeed);
  const auto below = [&](std::uint64_t end) { return static_cast<std::int64_t>(random() % end); };
  const std::vector<std::byte> literal{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  for (int round = 0; round < 3000; ++round) {
    SourceNest source;
    source.nest.from = below(9);
    source.nest.to = below(9);
    std::int64_t to = 1;
    for (std::int64_t i = below(4); i > 0; --i) {
      const Nest::Loop loop{2 + below(3), below(7), to};
      to *= loop.count;
      source.nest.add(loop);
    }
    source.nest.join();
    if (below(4) == 0) {
      source.literal = &literal;
      Nest nest;
      nest.to = source.nest.to;
      for (const Nest::Loop& loop : source.nest.loops()) nest.add({loop.count, 0, loop.to});
      source.nest = nest;
    }
    // A part of the first element and of the last one.
    const std::uint64_t first = static_cast<std::uint64_t>(source.nest.to) * kElement;
    const std::uint64_t end = first + static_cast<std::uint64_t>(to) * kElement;
    const std::uint64_t begin = first + static_cast<std::uint64_t>(below(kElement));
    std::uint64_t stop = end - static_cast<std::uint64_t>(below(kElement));
    if (stop <= begin) stop = end;
    const std::vector<std::int64_t> found = bytes_of({source}, ByteRange::between(begin, stop));
    for_each_index(source.nest, [&](std::int64_t from, std::int64_t place) {
      for (std::uint64_t k = 0; k < kElement; ++k) {
        const std::uint64_t at = static_cast<std::uint64_t>(place) * kElement + k;
        if (at < begin || at >= stop) continue;
        const std::int64_t expected =
            source.literal != nullptr
                ? 1001 + static_cast<std::int64_t>(k)
                : from * std::int64_t{kElement} + static_cast<std::int64_t>(k);
        ASSERT_EQ(found.at(static_cast<std::size_t>(at - begin)), expected);
      }
    });
    EXPECT_EQ(std::count(found.begin(), found.end(), -1), 0);
  }
}

TEST(RunMaker, JoinsWhatFollows) {
  SourceNest first;
  first.nest.add({3, 1, 1});
  SourceNest second;
  second.nest.from = 3;
  second.nest.to = 3;
  second.nest.add({5, 1, 1});
  SourceNest elsewhere = second;
  elsewhere.cell = 1;
  elsewhere.nest.from = 8;
  elsewhere.nest.to = 8;
  std::vector<StridedRun> found;
  const auto visit = [&](const StridedRun& run) { found.push_back(run); };
  RunMaker runs({0, 13 * kElement}, kElement, visit);
  for (const SourceNest& nest : {first, second, elsewhere}) runs.take(nest);
  runs.finish();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].length, 8 * kElement);
  EXPECT_EQ(found[0].source_stride, 8 * kElement);
  EXPECT_EQ(found[1].cell, 1U);
}

}  // namespace
}  // namespace reshardfs::run_maker_tests
