// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_layout.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::zero_layout_tests {
namespace {

using test::expect_error;
using Lengths = std::vector<std::int64_t>;

/// The parameter and the element of it, for each place of a vector; {-1, 0} where padding is.
using Owners = std::vector<std::pair<std::int64_t, std::int64_t>>;
constexpr std::pair<std::int64_t, std::int64_t> kPadding{-1, 0};

std::int64_t pick(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

std::vector<ZeroShape> random_parameters(std::mt19937& random) {
  std::vector<ZeroShape> parameters;
  for (std::int64_t i = pick(random, 1, 8); i > 0; --i) {
    Shape shape;
    for (std::int64_t d = pick(random, 0, 3); d > 0; --d) shape.push_back(pick(random, 0, 5));
    parameters.push_back({"p" + std::to_string(i), std::move(shape)});
  }
  return parameters;
}

/// All parameters, one behind the other.
Owners flat_vector(const std::vector<ZeroShape>& parameters) {
  Owners all;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t count = element_count(parameters[i].shape);
    for (std::int64_t e = 0; e < count; ++e) all.emplace_back(static_cast<std::int64_t>(i), e);
  }
  return all;
}

/// What the fragments of all ranks say, and that each lies within its rank's part.
Owners joined_fragments(const std::vector<ZeroShape>& parameters, const ZeroPartition& partition,
                        const Lengths& lengths) {
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) total += length;
  Owners all(static_cast<std::size_t>(total), kPadding);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t count = element_count(parameters[i].shape);
    std::int64_t element = 0;
    std::int64_t begin = 0;
    for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
      const ZeroFragment part = zero_fragment(partition, i, count, rank);
      EXPECT_GE(part.count, 0);
      EXPECT_LE(part.start + part.count, lengths[rank]);
      for (std::int64_t e = 0; e < part.count; ++e, ++element) {
        auto& owner = all.at(static_cast<std::size_t>(begin + part.start + e));
        EXPECT_EQ(owner, kPadding) << "two parameters in one place";
        owner = {static_cast<std::int64_t>(i), element};
      }
      begin += lengths[rank];
    }
    EXPECT_EQ(element, count) << parameters[i].name;
  }
  return all;
}

TEST(ZeroPartition, EndsBeforeTheLastRank) {
  EXPECT_TRUE(is_end_of_group({4, 3, 0}, {0, 1, 4}, 1));
  EXPECT_TRUE(is_end_of_group({1, 0}, {1, 2}, 0));
  EXPECT_TRUE(is_end_of_group({2, 0, 0}, {0, 2, 2}, 1));
  EXPECT_FALSE(is_end_of_group({4, 3, 1}, {0, 1, 3}, 1)) << "elements behind the end";
  EXPECT_FALSE(is_end_of_group({4, 3, 0}, {0, 1, 3}, 1)) << "less padding behind the end";
  EXPECT_FALSE(is_end_of_group({4, 3, 0}, {0, 2, 4}, 1)) << "a longer part";
  EXPECT_FALSE(is_end_of_group({4, 5, 0}, {0, 1, 4}, 1)) << "a longer part";
}

TEST(ZeroPartition, CutsTheVectorOfAllParameters) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::vector<ZeroShape> parameters = random_parameters(random);
    const std::int64_t ranks = pick(random, 1, 9);
    Owners expected = flat_vector(parameters);
    // DeepSpeed fills the vector up to twice the number of ranks.
    while (expected.size() % static_cast<std::size_t>(2 * ranks) != 0) expected.push_back(kPadding);
    const Lengths lengths(static_cast<std::size_t>(ranks),
                          static_cast<std::int64_t>(expected.size()) / ranks);
    const ZeroPartition partition = zero_partition(parameters, lengths);
    ASSERT_EQ(joined_fragments(parameters, partition, lengths), expected);
  }
}

TEST(ZeroPartition, TakesAVectorWithoutPadding) {
  // Stage 1 of some releases leaves the last parts shorter.
  const std::vector<ZeroShape> parameters{{"a", {2, 2}}, {"b", {3}}};
  const Lengths lengths{3, 3, 1};
  const ZeroPartition partition = zero_partition(parameters, lengths);
  EXPECT_EQ(partition.starts, (Lengths{0, 4}));
  EXPECT_EQ(partition.parts, (Lengths{0, 3, 6, 7}));
  EXPECT_EQ(joined_fragments(parameters, partition, lengths), flat_vector(parameters));
  EXPECT_EQ(zero_fragment(partition, 0, 4, 1), (ZeroFragment{1, 0}));
  EXPECT_EQ(zero_fragment(partition, 1, 3, 1), (ZeroFragment{2, 1}));
  EXPECT_EQ(zero_fragment(partition, 0, 4, 2), (ZeroFragment{}));
  EXPECT_NO_THROW(zero_partition(parameters, {7, 0, 0}));
  EXPECT_NO_THROW(zero_partition({}, {0, 0}));
}

TEST(ZeroPartition, RefusesLengthsThatAreNoParts) {
  const std::vector<ZeroShape> parameters{{"a", {2, 2}}, {"b", {3}}};  // 7 elements
  const auto expect_no_parts = [&](const Lengths& lengths, const std::string& words) {
    SCOPED_TRACE(words);
    expect_error(ErrorKind::kBadInput, {words}, [&] { zero_partition(parameters, lengths); });
  };
  EXPECT_NO_THROW(zero_partition(parameters, {4, 4}));
  expect_no_parts({4, 3, 1}, "rank 1 has 3 elements of the group, but rank 0 has 4");
  expect_no_parts({3, 4}, "rank 1 has 4 elements of the group, but rank 0 has 3");
  expect_no_parts({4, 0, 4}, "rank 1 has 0 elements");
  expect_no_parts({3, 3}, "its parameters have 7 elements, but the ranks have 6");
  expect_no_parts({5, 5}, "its parameters have 7 elements, but the ranks have 10");
  expect_no_parts({6, 6, 6}, "but the ranks have 18");
  expect_no_parts({INT64_MAX, INT64_MAX}, "exceeds the range");
  expect_error(ErrorKind::kBadInput, {"exceeds the range"}, [] {
    zero_partition({{"a", {INT64_MAX}}, {"b", {INT64_MAX}}}, {4, 4});
  });
}

TEST(ZeroPieces, CutEachParameterForAllRanks) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::vector<ZeroShape> parameters = random_parameters(random);
    const std::int64_t ranks = pick(random, 1, 9);
    const ZeroPieces pieces = zero_pieces(parameters, ranks);
    ASSERT_EQ(pieces.lengths.size(), parameters.size());
    ASSERT_EQ(pieces.starts.size(), parameters.size());
    std::int64_t start = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::int64_t count = element_count(parameters[i].shape);
      EXPECT_EQ(pieces.starts[i], start);
      // The least that holds all, so that only the last ranks have padding.
      EXPECT_GE(pieces.lengths[i] * ranks, count);
      EXPECT_LT((pieces.lengths[i] - (count > 0 ? 1 : 0)) * ranks,
                std::max<std::int64_t>(count, 1));
      start += pieces.lengths[i];
    }
    EXPECT_EQ(pieces.total, start);
  }
}

TEST(ZeroPieces, AreRoundedUp) {
  const ZeroPieces pieces = zero_pieces({{"a", {5}}, {"s", {}}, {"n", {0, 7}}, {"b", {4}}}, 2);
  EXPECT_EQ(pieces.lengths, (Lengths{3, 1, 0, 2}));
  EXPECT_EQ(pieces.starts, (Lengths{0, 3, 4, 4}));
  EXPECT_EQ(pieces.total, 6);
  expect_error(ErrorKind::kBadInput, {"exceeds the range"}, [] {
    zero_pieces({{"a", {INT64_MAX}}}, 2);
  });
  expect_error(ErrorKind::kBadInput, {"exceeds the range"}, [] {
    zero_pieces({{"a", {INT64_MAX}}, {"b", {1}}}, 1);
  });
}

}  // namespace
}  // namespace reshardfs::zero_layout_tests
