// SPDX-License-Identifier: Apache-2.0
/// Comparison of elements against a slow and simple one, which decodes bits by the formulas of the
/// types.
#include "check/element_compare.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "check/element_values.h"
#include "support/dtypes.h"

namespace reshardfs {
namespace {

struct FloatFormat {
  int exponent_bits = 0;
  int fraction_bits = 0;
  bool has_infinity = true;
};

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {5, 10};
    case DType::kBFloat16:
      return {8, 7};
    case DType::kFloat32:
      return {8, 23};
    case DType::kFloat64:
      return {11, 52};
    case DType::kFloat8E5M2:
      return {5, 2};
    case DType::kFloat8E4M3:
      return {4, 3, false};
    default:
      return {};
  }
}

std::uint64_t bits_of(DType dtype, const std::byte* element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, static_cast<std::size_t>(element_size(dtype)));
  return bits;
}

/// Types of which all values but one are plain, as the libraries that name them state.
std::optional<long double> reference_of_byte(DType dtype, std::uint64_t bits) {
  const auto nan = std::numeric_limits<long double>::quiet_NaN();
  const long double sign = bits >= 128 ? -1 : 1;
  const auto fnuz = [&](int exponent_bits) {
    if (bits == 128) return nan;
    const auto steps = static_cast<long double>(1 << (7 - exponent_bits));
    const auto exponent = static_cast<int>(bits % 128) >> (7 - exponent_bits);
    const auto rest = static_cast<long double>(bits % static_cast<std::uint64_t>(steps)) / steps;
    const int bias = 1 << (exponent_bits - 1);
    return exponent == 0 ? sign * rest * std::pow(2.0L, 1 - bias)
                         : sign * (1 + rest) * std::pow(2.0L, exponent - bias);
  };
  switch (dtype) {
    case DType::kFloat8E8M0:
      return bits == 255 ? nan : std::pow(2.0L, static_cast<int>(bits) - 127);
    case DType::kFloat8E4M3FNUZ:
      return fnuz(4);
    case DType::kFloat8E5M2FNUZ:
      return fnuz(5);
    default:
      return std::nullopt;
  }
}

long double reference_value(DType dtype, const std::byte* element) {
  const std::uint64_t bits = bits_of(dtype, element);
  if (const auto value = reference_of_byte(dtype, bits)) return *value;
  const FloatFormat format = format_of(dtype);
  const int width = static_cast<int>(element_size(dtype)) * 8;
  const bool top_bit = (bits >> (width - 1) & 1) != 0;
  if (format.exponent_bits == 0) {
    const bool is_signed = dtype == DType::kInt4 || dtype == DType::kInt8 ||
                           dtype == DType::kInt16 || dtype == DType::kInt32 ||
                           dtype == DType::kInt64;
    const auto value = static_cast<long double>(bits);
    return is_signed && top_bit ? value - std::ldexp(1.0L, width) : value;
  }
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << format.fraction_bits) - 1);
  const int all_ones = (1 << format.exponent_bits) - 1;
  const int exponent =
      static_cast<int>(bits >> format.fraction_bits & static_cast<std::uint64_t>(all_ones));
  const int bias = all_ones / 2;
  const long double sign = top_bit ? -1 : 1;
  if (exponent == all_ones && format.has_infinity) {
    return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                         : sign * std::numeric_limits<long double>::infinity();
  }
  if (!format.has_infinity && exponent == all_ones && fraction == 7) {
    return std::numeric_limits<long double>::quiet_NaN();
  }
  const long double whole = exponent == 0 ? 0 : std::ldexp(1.0L, format.fraction_bits);
  return sign * std::ldexp(static_cast<long double>(fraction) + whole,
                           std::max(exponent, 1) - bias - format.fraction_bits);
}

/// What numpy.allclose says of one pair, with the difference.
bool reference_equal(long double a, long double b, const Tolerance& tolerance) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) && tolerance.nan_equals_nan;
  }
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  return std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(b);
}

/// Whether the difference is the tolerance but for what a double rounds off: then either is right.
bool is_on_the_edge(long double a, long double b, const Tolerance& tolerance) {
  const long double distance = std::abs(a - b);
  const long double limit = tolerance.absolute + tolerance.relative * std::abs(b);
  return std::isfinite(distance) &&
         std::abs(distance - limit) <= distance * 4 * std::numeric_limits<double>::epsilon();
}

struct Reference {
  ElementTally tally{};
  std::uint64_t on_the_edge = 0;  ///< of the different ones and of the others
};

Reference reference(const ElementRange& a, const ElementRange& b, std::size_t count,
                    const Tolerance& tolerance) {
  Reference result;
  ElementTally& tally = result.tally;
  tally.elements = count;
  const auto raise = [](std::optional<double>& largest, long double value) {
    largest = std::max(largest.value_or(0), static_cast<double>(value));
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = [i](const ElementRange& range) {
      return range.bytes + i * static_cast<std::size_t>(element_size(range.dtype));
    };
    const long double x = reference_value(a.dtype, at(a));
    const long double y = reference_value(b.dtype, at(b));
    if (reference_equal(x, y, {0, 0, tolerance.nan_equals_nan})) continue;
    ++tally.unequal;
    const bool nan = std::isnan(x) || std::isnan(y);
    if (nan) ++tally.nans;
    if (!nan) {
      raise(tally.max_absolute, std::abs(x - y));
      if (y != 0 && std::isfinite(y)) raise(tally.max_relative, std::abs((x - y) / y));
    }
    if (is_on_the_edge(x, y, tolerance)) ++result.on_the_edge;
    if (reference_equal(x, y, tolerance)) continue;
    ++tally.different;
    if (!tally.first) tally.first = i;
  }
  return result;
}

void expect_near(const std::optional<double>& got, const std::optional<double>& want) {
  ASSERT_EQ(got.has_value(), want.has_value());
  if (!want || *got == *want) return;
  EXPECT_NEAR(*got / *want, 1, 1e-12);
}

void expect_as_reference(const ElementRange& a, const ElementRange& b, std::size_t count,
                         const Tolerance& tolerance) {
  SCOPED_TRACE(std::string(mindspore_name(a.dtype)) + " against " +
               std::string(mindspore_name(b.dtype)));
  const auto [want, on_the_edge] = reference(a, b, count, tolerance);
  ElementTally got;
  compare_elements(a, b, count, 0, tolerance, got);
  EXPECT_EQ(got.elements, want.elements);
  EXPECT_EQ(got.unequal, want.unequal);
  EXPECT_LE(got.different, want.different + on_the_edge);
  EXPECT_GE(got.different + on_the_edge, want.different);
  EXPECT_EQ(got.nans, want.nans);
  if (on_the_edge == 0) {
    EXPECT_EQ(got.first, want.first);
  }
  expect_near(got.max_absolute, want.max_absolute);
  expect_near(got.max_relative, want.max_relative);
}

using Bytes = std::vector<std::byte>;

template <typename Number>
Bytes bytes_of(const std::vector<Number>& values) {
  Bytes bytes(values.size() * sizeof(Number));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Zeros of both signs, the smallest and largest of each kind, infinity, NaN with a payload: the
/// bit patterns around all powers of two, and their complements.
Bytes special_bytes(DType dtype) {
  Bytes bytes;
  const auto size = static_cast<std::size_t>(element_size(dtype));
  const auto append = [&](std::uint64_t bits) {
    const std::size_t at = bytes.size();
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, &bits, size);
  };
  for (std::size_t bit = 0; bit < size * 8; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t bits : {power - 1, power, power + 1}) {
      append(bits);
      append(~bits);
    }
  }
  return bytes;
}

TEST(ElementValues, AreWhatTheFormulasSay) {
  for (const DType dtype : test::kNumberTypes) {
    SCOPED_TRACE(std::string(mindspore_name(dtype)));
    const Bytes bytes = special_bytes(dtype);
    const auto size = static_cast<std::size_t>(element_size(dtype));
    std::vector<WideReal> values(bytes.size() / size);
    widen(dtype, bytes.data(), values.size(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const long double want = reference_value(dtype, bytes.data() + i * size);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(values[i])) << i;
      } else {
        EXPECT_EQ(values[i], want) << i;
        EXPECT_EQ(std::signbit(values[i]), std::signbit(want)) << i;
      }
    }
  }
}

TEST(CompareElements, IsAsTheReferenceForAllPairsOfTypes) {
  const auto seed = static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<Tolerance> tolerances{{}, {0.5, 0, true}, {0, 0.25, false}, {1e-3, 1e-2, true}};
  for (const DType a : test::kNumberTypes) {
    for (const DType b : test::kNumberTypes) {
      Bytes left = special_bytes(a);
      Bytes right = special_bytes(b);
      const auto a_size = static_cast<std::size_t>(element_size(a));
      const auto b_size = static_cast<std::size_t>(element_size(b));
      const std::size_t count = std::min(left.size() / a_size, right.size() / b_size);
      const Tolerance& tolerance = tolerances[random() % tolerances.size()];
      expect_as_reference({a, left.data()}, {b, right.data()}, count, tolerance);
      for (std::byte& byte : left) byte = static_cast<std::byte>(random());
      expect_as_reference({a, left.data()}, {b, right.data()}, count, tolerance);
    }
  }
}

TEST(CompareElements, WithoutNumbersByTheBytesOfTheirUnits) {
  for (const DType dtype :
       {DType::kFloat4E2M1, DType::kFloat6E2M3, DType::kFloat6E3M2, DType::kComplex64}) {
    SCOPED_TRACE(std::string(mindspore_name(dtype)));
    EXPECT_FALSE(has_numbers(dtype));
    EXPECT_TRUE(can_compare(dtype, dtype));
    EXPECT_FALSE(can_compare(dtype, DType::kFloat32));
    const auto size = static_cast<std::size_t>(element_size(dtype));
    const auto per_unit = static_cast<std::uint64_t>(elements_per_unit(dtype));
    const std::size_t count = 3000;
    const Bytes left(count * size, std::byte{0x11});
    for (const std::size_t at : {std::size_t{0}, std::size_t{1365}, count - 1}) {
      Bytes right = left;
      right[at * size + size - 1] = std::byte{0x13};
      ElementTally tally;
      compare_elements({dtype, left.data()}, {dtype, right.data()}, count, 70, {}, tally);
      EXPECT_EQ(tally.elements, count * per_unit);
      EXPECT_EQ(tally.different, per_unit);
      EXPECT_EQ(tally.first, (70 + at) * per_unit);
      EXPECT_EQ(tally.first_a.substr(0, 4), "0x11");
      EXPECT_EQ(tally.first_b, tally.first_a.substr(0, 2 * size) + "13");
    }
  }
}

TEST(CompareElements, FindsTheOneElementThatDiffersWhereverItIs) {
  for (const DType dtype : test::kNumberTypes) {
    const auto size = static_cast<std::size_t>(element_size(dtype));
    const std::size_t count = 5000;
    // One byte more in front: unaligned.
    Bytes left(count * size + 1, std::byte{0x11});
    for (const std::size_t at : {std::size_t{0}, std::size_t{1023}, std::size_t{1024}, count - 1}) {
      Bytes right = left;
      right[1 + at * size] = std::byte{0x12};
      ElementTally tally;
      compare_elements({dtype, left.data() + 1}, {dtype, right.data() + 1}, count, 70, {}, tally);
      EXPECT_EQ(tally.different, 1U) << mindspore_name(dtype);
      EXPECT_EQ(tally.first, 70 + at);
    }
  }
}

ElementTally compare_doubles(const std::vector<double>& a, const std::vector<double>& b,
                             const Tolerance& tolerance = {}) {
  const Bytes left = bytes_of(a);
  const Bytes right = bytes_of(b);
  ElementTally tally;
  compare_elements({DType::kFloat64, left.data()}, {DType::kFloat64, right.data()}, a.size(), 0,
                   tolerance, tally);
  return tally;
}

TEST(CompareElements, TakesZerosOfBothSignsAsEqual) {
  EXPECT_EQ(compare_doubles({0.0, -0.0}, {-0.0, 0.0}).unequal, 0U);
}

TEST(CompareElements, TakesNaNAsEqualUnlessAsked) {
  const double nan = std::nan("1");
  const double other = -std::nan("77");
  EXPECT_EQ(compare_doubles({nan, nan}, {other, nan}).unequal, 0U);
  const ElementTally strict = compare_doubles({nan, nan}, {other, nan}, {0, 0, false});
  EXPECT_EQ(strict.different, 2U);
  EXPECT_EQ(strict.nans, 2U);
  EXPECT_EQ(compare_doubles({nan}, {1.0}, {1e300, 1, true}).different, 1U);
}

TEST(CompareElements, NeverTakesInfinityAsClose) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(compare_doubles({inf, -inf}, {inf, -inf}).unequal, 0U);
  EXPECT_EQ(compare_doubles({1.0, inf, inf}, {inf, 1.0, -inf}, {1, 1, true}).different, 3U);
}

TEST(CompareElements, ToleratesRelativelyToB) {
  EXPECT_EQ(compare_doubles({9.0}, {10.0}, {0, 0.1, true}).different, 0U);
  EXPECT_EQ(compare_doubles({10.0}, {9.0}, {0, 0.1, true}).different, 1U);
}

TEST(CompareElements, ComparesLargeIntegersExactly) {
  const Bytes a = bytes_of<std::int64_t>({(std::int64_t{1} << 60) + 1, -1});
  const Bytes b = bytes_of<std::uint64_t>({std::uint64_t{1} << 60, ~std::uint64_t{0}});
  ElementTally tally;
  compare_elements({DType::kInt64, a.data()}, {DType::kUInt64, b.data()}, 2, 0, {}, tally);
  EXPECT_EQ(tally.different, 2U);
  EXPECT_EQ(tally.first_a, "1152921504606846977");
  EXPECT_EQ(tally.first_b, "1152921504606846976");
}

}  // namespace
}  // namespace reshardfs
