// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "format/ckpt/wire_cursor.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kEnd = std::uint64_t{1} << 40U;

/// Hops over all places; how many of them were not foretold.
std::size_t missed(const std::vector<std::uint64_t>& hops, std::size_t* told = nullptr) {
  HopPredictor predictor;
  std::vector<std::uint64_t> expected;
  std::uint64_t place = 100;
  std::size_t missed = 0;
  predictor.hop_to(place, kEnd);
  for (const std::uint64_t hop : hops) {
    place += hop;
    const bool known = std::any_of(expected.begin(), expected.end(), [&](std::uint64_t there) {
      return (there > place ? there - place : place - there) <= HopPredictor::kTolerance;
    });
    if (!known) ++missed;
    for (const std::uint64_t next : predictor.hop_to(place, kEnd)) expected.push_back(next);
  }
  if (told != nullptr) *told = expected.size();
  return missed;
}

std::vector<std::uint64_t> repeated(const std::vector<std::uint64_t>& layer, std::size_t times) {
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < times; ++i) out.insert(out.end(), layer.begin(), layer.end());
  return out;
}

TEST(HopPredictor, LayersThatAreAlikeAreForetold) {
  const auto hops = repeated({1'000'000, 5'000'000, 70'000, 300'000, 2'000'000}, 100);
  EXPECT_LE(missed(hops), 8U);
  EXPECT_LE(missed(repeated({4'000'000}, 500)), 4U);
}

TEST(HopPredictor, DigitsOfNamesDoNotMatter) {
  auto hops = repeated({1'000'000, 5'000'000, 70'000, 300'000}, 200);
  for (std::size_t i = 40; i < hops.size(); ++i) hops[i] += i < 400 ? 1 : 2;
  EXPECT_LE(missed(hops), 24U);
}

TEST(HopPredictor, WhatDoesNotRepeatIsNotForetold) {
  std::vector<std::uint64_t> hops;
  for (std::uint64_t i = 1; i < 500; ++i) hops.push_back(i * i * 1000);
  std::size_t told = 0;
  EXPECT_EQ(missed(hops, &told), hops.size());
  EXPECT_EQ(told, 0U);
}

TEST(HopPredictor, AChangeIsNoticed) {
  auto hops = repeated({1'000'000, 2'000'000}, 50);
  const auto others = repeated({300'000, 400'000, 500'000}, 50);
  hops.insert(hops.end(), others.begin(), others.end());
  std::size_t told = 0;
  EXPECT_LE(missed(hops, &told), 16U);
  EXPECT_LE(told, hops.size() + 3 * HopPredictor::kAhead);
}

TEST(HopPredictor, NothingIsToldTwiceOrBehindTheEnd) {
  HopPredictor predictor;
  std::vector<std::uint64_t> told;
  constexpr std::uint64_t kSize = 1'000'000'000;
  for (std::uint64_t place = 0; place < kSize; place += 1'000'000) {
    const auto next = predictor.hop_to(place, kSize);
    told.insert(told.end(), next.begin(), next.end());
  }
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(std::adjacent_find(told.begin(), told.end()), told.end());
  EXPECT_LT(told.back(), kSize);
}

TEST(HopPredictor, StartsAnewWhereTheFileDoes) {
  HopPredictor predictor;
  for (std::uint64_t place = 0; place < 20; ++place) predictor.hop_to(place * 1'000'000, kEnd);
  EXPECT_TRUE(predictor.hop_to(5, kEnd).empty());
  EXPECT_TRUE(predictor.hop_to(10, kEnd).empty());
}

}  // namespace
}  // namespace reshardfs
