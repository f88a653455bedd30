// SPDX-License-Identifier: Apache-2.0
/// Statistics against slow and simple ones over the same numbers; that widen() is right about these
/// is tested with the comparison.
#include "check/element_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/dtypes.h"

namespace reshardfs {
namespace {

ElementStats reference(DType dtype, const std::byte* in, std::size_t count) {
  std::vector<WideReal> values(count);
  widen(dtype, in, count, values.data());
  ElementStats stats;
  stats.elements = count;
  std::vector<WideReal> finite;
  for (const WideReal value : values) {
    stats.nans += std::isnan(value) ? 1U : 0U;
    stats.infinities += std::isinf(value) ? 1U : 0U;
    stats.zeros += value == 0 ? 1U : 0U;
    if (std::isfinite(value)) finite.push_back(value);
  }
  if (finite.empty()) return stats;
  const auto number = static_cast<WideReal>(finite.size());
  stats.min = *std::min_element(finite.begin(), finite.end());
  stats.max = *std::max_element(finite.begin(), finite.end());
  for (const WideReal value : finite) stats.mean += value / number;
  for (const WideReal value : finite) stats.squares += (value - stats.mean) * (value - stats.mean);
  return stats;
}

void expect_near(const ElementStats& got, const ElementStats& want) {
  EXPECT_EQ(got.elements, want.elements);
  EXPECT_EQ(got.nans, want.nans);
  EXPECT_EQ(got.infinities, want.infinities);
  EXPECT_EQ(got.zeros, want.zeros);
  EXPECT_EQ(got.min, want.min);
  EXPECT_EQ(got.max, want.max);
  const WideReal size = std::max(std::abs(want.min), std::abs(want.max));
  EXPECT_LE(std::abs(got.mean - want.mean), 1e-15L * size);
  EXPECT_LE(std::abs(got.squares - want.squares), 1e-13L * want.squares);
  ASSERT_EQ(got.deviation().has_value(), want.finite() > 0);
}

template <typename Value>
ElementStats of(DType dtype, const std::vector<Value>& values) {
  return stats_of(dtype, reinterpret_cast<const std::byte*>(values.data()), values.size());
}

TEST(ElementStats, AreThoseOfRandomBitsInAllTypes) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const DType dtype : test::kNumberTypes) {
    for (const std::size_t count : {1U, 7U, 8U, 2047U, 2048U, 2049U, 9000U}) {
      SCOPED_TRACE(std::string(mindspore_name(dtype)) + " " + std::to_string(count));
      const std::size_t bytes = count * static_cast<std::size_t>(element_size(dtype));
      std::vector<std::byte> data(bytes + 1);
      for (std::byte& byte : data) byte = static_cast<std::byte>(random() & 0xff);
      // Some zeros, and not aligned.
      std::fill_n(data.begin() + 1, bytes / 3, std::byte{0});
      expect_near(stats_of(dtype, data.data() + 1, count),
                  reference(dtype, data.data() + 1, count));
    }
  }
}

TEST(ElementStats, OfNoElementsThereAreNone) {
  const ElementStats stats = stats_of(DType::kFloat32, nullptr, 0);
  EXPECT_EQ(stats, ElementStats{});
  EXPECT_FALSE(stats.deviation());
}

TEST(ElementStats, CountsWhatIsNotFiniteAndLooksAtTheRest) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const ElementStats stats = of<float>(DType::kFloat32, {kNan, 3, kInf, -0.0F, -kInf, 1, kInf, 0});
  EXPECT_EQ(stats.nans, 1U);
  EXPECT_EQ(stats.infinities, 3U);
  EXPECT_EQ(stats.zeros, 2U);
  EXPECT_EQ(stats.min, 0);
  EXPECT_FALSE(std::signbit(stats.min));
  EXPECT_EQ(stats.max, 3);
  EXPECT_EQ(stats.mean, 1);
  EXPECT_EQ(stats.deviation(), std::sqrt(1.5L));
  const ElementStats none = of<float>(DType::kFloat32, {kNan, kInf});
  EXPECT_FALSE(none.deviation());
  EXPECT_EQ(none.elements, 2U);
}

TEST(ElementStats, KeepTheDeviationOfLargeNumbers) {
  std::vector<double> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1e9 + (i % 2 == 0 ? 0.5 : -0.5);
  const ElementStats stats = of(DType::kFloat64, values);
  EXPECT_EQ(stats.mean, 1e9L);
  EXPECT_EQ(stats.deviation(), 0.5L);
}

TEST(ElementStats, HaveTheMeanToTheLastBit) {
  std::vector<double> values(2048, 0.1);
  values.front() = 0.1 + 1e-9;
  const ElementStats stats = of(DType::kFloat64, values);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  const WideReal mean = reference(DType::kFloat64, bytes, values.size()).mean;
  EXPECT_EQ(static_cast<double>(stats.mean), static_cast<double>(mean));
}

TEST(ElementStats, OfAConstantAreExact) {
  const ElementStats stats = of(DType::kFloat64, std::vector<double>(5000, 0.1));
  EXPECT_EQ(stats.mean, WideReal{0.1});
  EXPECT_EQ(stats.deviation(), 0);
}

TEST(ElementStats, OfTheLargestDoublesDoNotOverflow) {
  constexpr double kMax = std::numeric_limits<double>::max();
  const ElementStats stats = of<double>(DType::kFloat64, {kMax, kMax, -kMax, -kMax, kMax, -kMax});
  EXPECT_EQ(stats.infinities, 0U);
  EXPECT_EQ(stats.mean, 0);
  EXPECT_EQ(static_cast<double>(*stats.deviation()), kMax);
}

TEST(ElementStats, HaveLargeIntegersExactly) {
  const ElementStats large =
      of<std::uint64_t>(DType::kUInt64, {std::numeric_limits<std::uint64_t>::max(), 1});
  EXPECT_EQ(static_cast<std::uint64_t>(large.max), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(static_cast<std::uint64_t>(large.mean), std::uint64_t{1} << 63U);
  const ElementStats small =
      of<std::int64_t>(DType::kInt64, {std::numeric_limits<std::int64_t>::min(), 5});
  EXPECT_EQ(static_cast<std::int64_t>(small.min), std::numeric_limits<std::int64_t>::min());
}

TEST(ElementStats, MergeToThoseOfTheWhole) {
  std::mt19937 random(1);
  std::normal_distribution<float> numbers(100, 3);
  std::vector<float> values(5000);
  for (float& value : values) value = numbers(random);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  const ElementStats whole = reference(DType::kFloat32, bytes, values.size());
  for (const std::size_t cut : {0U, 1U, 2048U, 4999U, 5000U}) {
    SCOPED_TRACE(cut);
    expect_near(merged(stats_of(DType::kFloat32, bytes, cut),
                       stats_of(DType::kFloat32, bytes + cut * 4, values.size() - cut)),
                whole);
  }
}

TEST(PairwiseStats, DoNotDependOnTheOrder) {
  std::mt19937 random(2);
  for (const std::size_t count : {1U, 2U, 3U, 5U, 8U, 13U, 100U}) {
    std::vector<ElementStats> blocks;
    ElementStats in_a_row;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<double> values(1 + random() % 50);
      for (double& value : values) value = std::ldexp(random(), static_cast<int>(random() % 60));
      blocks.push_back(of(DType::kFloat64, values));
      in_a_row = merged(in_a_row, blocks.back());
    }
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    PairwiseStats first(count);
    for (const std::size_t i : order) first.add(i, blocks[i]);
    EXPECT_EQ(first.result().elements, in_a_row.elements);
    EXPECT_NEAR(static_cast<double>(first.result().mean / in_a_row.mean), 1, 1e-12);
    for (int i = 0; i < 20; ++i) {
      std::shuffle(order.begin(), order.end(), random);
      PairwiseStats again(count);
      for (const std::size_t k : order) again.add(k, blocks[k]);
      EXPECT_EQ(again.result(), first.result()) << count;
    }
  }
  EXPECT_EQ(PairwiseStats(0).result(), ElementStats{});
}

}  // namespace
}  // namespace reshardfs
