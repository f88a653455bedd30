// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_places.h"

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::zero_places_tests {
namespace {

/// The file and the offset in it, for each byte of a sequence.
using Bytes = std::vector<std::pair<std::size_t, std::uint64_t>>;

std::uint64_t pick(std::mt19937& random, std::uint64_t low, std::uint64_t high) {
  return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
}

/// That from each byte on, the part leads to the bytes that follow in its file.
void expect_places(const JoinedPlaces& places, const Bytes& expected) {
  ASSERT_EQ(places.size(), expected.size());
  for (std::uint64_t at = 0; at < expected.size(); ++at) {
    const JoinedPart part = places.part_at(at);
    ASSERT_GT(part.length, 0U) << at;
    ASSERT_LE(part.length, expected.size() - at) << at;
    for (std::uint64_t i = 0; i < part.length; ++i) {
      ASSERT_EQ(expected[at + i], std::pair(part.file, part.offset + i)) << at << " + " << i;
    }
  }
}

/// Adds random ranges to a list, and their bytes to the model.
void add_ranges(std::mt19937& random, std::uint64_t bytes, RangeList& list, Bytes& model) {
  while (bytes > 0) {
    const std::uint64_t length = pick(random, 0, bytes);
    const std::size_t file = pick(random, 0, 3);
    const std::uint64_t offset = pick(random, 0, 1000);
    EXPECT_EQ(list.add(file, ByteRange(offset, length)), model.size());
    for (std::uint64_t i = 0; i < length; ++i) model.emplace_back(file, offset + i);
    bytes -= length;
  }
}

TEST(RangeList, IsItsRangesOneBehindTheOther) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    RangeList list;
    Bytes model;
    add_ranges(random, pick(random, 0, 60), list, model);
    expect_places(list, model);
  }
}

TEST(RangeList, PassesOverEmptyRanges) {
  RangeList list;
  EXPECT_EQ(list.size(), 0U);
  EXPECT_EQ(list.add(0, ByteRange(5, 0)), 0U);
  EXPECT_EQ(list.add(1, ByteRange(7, 2)), 0U);
  EXPECT_EQ(list.add(2, ByteRange(9, 0)), 2U);
  EXPECT_EQ(list.add(3, ByteRange(1, 1)), 2U);
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list.part_at(1).file, 1U);
  EXPECT_EQ(list.part_at(1).length, 1U);
  EXPECT_EQ(list.part_at(2).file, 3U);
}

TEST(RangeList, RefusesMoreBytesThanThereCanBe) {
  RangeList list;
  list.add(0, ByteRange(0, UINT64_MAX - 1));
  test::expect_error(ErrorKind::kBadInput, {"the size of all tensors exceeds the range"},
                     [&] { list.add(0, ByteRange(0, 2)); });
}

TEST(PieceList, PutsTheRanksPiecesTogether) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t ranks = pick(random, 1, 5);
    std::vector<std::uint64_t> lengths;
    std::uint64_t each = 0;  // what a rank has of all parameters
    for (std::uint64_t i = pick(random, 0, 5); i > 0; --i) {
      lengths.push_back(pick(random, 0, 20));
      each += (lengths.back() + ranks - 1) / ranks;
    }
    std::vector<std::shared_ptr<const RangeList>> lists;
    std::vector<Bytes> models(ranks);
    for (Bytes& model : models) {
      auto list = std::make_shared<RangeList>();
      add_ranges(random, each, *list, model);
      lists.push_back(std::move(list));
    }
    PieceList pieces(lists);
    Bytes expected;
    std::uint64_t start = 0;
    for (const std::uint64_t length : lengths) {
      const std::uint64_t piece = (length + ranks - 1) / ranks;
      EXPECT_EQ(pieces.add(length, start, piece), expected.size());
      for (std::uint64_t i = 0; i < length; ++i) {
        expected.push_back(models[i / piece][start + i % piece]);
      }
      start += piece;
    }
    expect_places(pieces, expected);
  }
}

TEST(PlacesList, IsSequencesOneBehindTheOther) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    PlacesList all;
    Bytes expected;
    for (std::uint64_t i = pick(random, 0, 6); i > 0; --i) {
      auto list = std::make_shared<RangeList>();
      Bytes model;
      add_ranges(random, pick(random, 0, 12), *list, model);
      EXPECT_EQ(all.add(std::move(list)), expected.size());
      expected.insert(expected.end(), model.begin(), model.end());
    }
    expect_places(all, expected);
  }
}

}  // namespace
}  // namespace reshardfs::zero_places_tests
