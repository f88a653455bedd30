// SPDX-License-Identifier: Apache-2.0
#include "base/cast.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs {
namespace {

/// A type by its numbers of bits; the reference arithmetic below shares nothing with the product.
struct Kind {
  DType dtype;
  int fraction;
  int exponent;

  int width() const { return 1 + exponent + fraction; }
  int bias() const { return (1 << (exponent - 1)) - 1; }
  std::uint64_t infinity() const { return ((std::uint64_t{1} << exponent) - 1) << fraction; }
  std::uint64_t sign() const { return std::uint64_t{1} << (width() - 1); }
};
constexpr Kind kHalf{DType::kFloat16, 10, 5};
constexpr Kind kBrain{DType::kBFloat16, 7, 8};
constexpr Kind kSingle{DType::kFloat32, 23, 8};
constexpr Kind kDouble{DType::kFloat64, 52, 11};
constexpr Kind kKinds[] = {kHalf, kBrain, kSingle, kDouble};

bool is_nan(const Kind& kind, std::uint64_t bits) {
  return (bits & ~kind.sign()) > kind.infinity();
}

/// The value, exactly; not for NaN.
double value_of(const Kind& kind, std::uint64_t bits) {
  const std::uint64_t size = bits & ~kind.sign();
  const auto exponent = static_cast<int>(size >> kind.fraction);
  const auto fraction = static_cast<double>(size & ((std::uint64_t{1} << kind.fraction) - 1));
  const double one = std::ldexp(1.0, kind.fraction);
  double value = 0;
  if (size == kind.infinity()) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - kind.bias() - kind.fraction);
  } else {
    value = std::ldexp(one + fraction, exponent - kind.bias() - kind.fraction);
  }
  return (bits & kind.sign()) != 0 ? -value : value;
}

/// The bits of the nearest value of `kind`, ties to even.
std::uint64_t nearest(const Kind& kind, double value) {
  const std::uint64_t sign = std::signbit(value) ? kind.sign() : 0;
  const double size = std::fabs(value);
  if (size == 0) return sign;
  if (std::isinf(size)) return sign | kind.infinity();
  const int lowest = 1 - kind.bias();
  const int exponent = std::max(std::ilogb(size), lowest);
  // In units of the last place: 0 ... 2^(fraction+1), and the encoding just counts on.
  const double units = std::nearbyint(std::ldexp(size, kind.fraction - exponent));
  const std::uint64_t bits = (static_cast<std::uint64_t>(exponent - lowest) << kind.fraction) +
                             static_cast<std::uint64_t>(units);
  return sign | std::min(bits, kind.infinity());
}

std::uint64_t expected(const Kind& from, std::uint64_t bits, const Kind& to) {
  if (!is_nan(from, bits)) return nearest(to, value_of(from, bits));
  const std::uint64_t sign = (bits & from.sign()) != 0 ? to.sign() : 0;
  const std::uint64_t payload = bits & ((std::uint64_t{1} << from.fraction) - 1);
  const int shift = to.fraction - from.fraction;
  const std::uint64_t kept = shift >= 0 ? payload << shift : payload >> -shift;
  return sign | to.infinity() | std::uint64_t{1} << (to.fraction - 1) | kept;
}

/// Converts with both buffers at odd addresses.
std::vector<std::uint64_t> cast(const Kind& from, const std::vector<std::uint64_t>& bits,
                                const Kind& to) {
  const auto in_size = static_cast<std::size_t>(from.width() / 8);
  const auto out_size = static_cast<std::size_t>(to.width() / 8);
  std::vector<std::byte> in(1 + bits.size() * in_size);
  std::vector<std::byte> out(1 + bits.size() * out_size + 1, std::byte{0x5a});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(in.data() + 1 + i * in_size, &bits[i], in_size);
  }
  cast_elements(from.dtype, in.data() + 1, to.dtype, out.data() + 1, bits.size());
  EXPECT_EQ(out.front(), std::byte{0x5a});
  EXPECT_EQ(out.back(), std::byte{0x5a}) << "wrote beyond the last element";
  std::vector<std::uint64_t> result(bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(&result[i], out.data() + 1 + i * out_size, out_size);
  }
  return result;
}

void expect_cast(const Kind& from, const std::vector<std::uint64_t>& bits, const Kind& to) {
  const std::vector<std::uint64_t> found = cast(from, bits, to);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(found[i], expected(from, bits[i], to))
        << mindspore_name(from.dtype) << " " << std::hex << bits[i] << " to "
        << mindspore_name(to.dtype);
  }
}

std::vector<std::uint64_t> all_of_16_bits() {
  std::vector<std::uint64_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i;
  return bits;
}

/// Each value of `to`, each middle between two, and their neighbours, as bits of `from`.
std::vector<std::uint64_t> around_values(const Kind& from, const Kind& to) {
  std::vector<std::uint64_t> bits;
  for (std::uint64_t i = 0; i < 65536; ++i) {
    if (is_nan(to, i)) continue;
    const double value = value_of(to, i);
    const std::uint64_t next = i + 1;
    const double middle = std::isinf(value) || is_nan(to, next) || std::isinf(value_of(to, next))
                              ? value
                              : (value + value_of(to, next)) / 2;
    for (const double centre : {value, middle}) {
      const std::uint64_t at = nearest(from, centre);
      for (const std::uint64_t near : {at - 1, at, at + 1}) {
        bits.push_back(near & (from.sign() | (from.sign() - 1)));
      }
    }
  }
  // The limit between the largest number and infinity.
  const std::uint64_t largest = to.infinity() - 1;
  const double step = value_of(to, largest) - value_of(to, largest - 1);
  const std::uint64_t limit = nearest(from, value_of(to, largest) + step / 2);
  for (const std::uint64_t near : {limit - 1, limit, limit + 1}) {
    bits.push_back(near);
    bits.push_back(near | from.sign());
  }
  return bits;
}

std::vector<std::uint64_t> random_bits(const Kind& kind, std::mt19937_64& random) {
  std::vector<std::uint64_t> bits(1'000'003);
  for (auto& each : bits) each = random() >> (64 - kind.width());
  return bits;
}

TEST(Cast, ConvertsEvery16BitValueToEveryType) {
  for (const Kind& from : {kHalf, kBrain}) {
    for (const Kind& to : kKinds) {
      if (from.dtype != to.dtype) expect_cast(from, all_of_16_bits(), to);
    }
  }
}

TEST(Cast, ReturnsFrom32And64BitsWithoutLoss) {
  for (const Kind& from : {kHalf, kBrain}) {
    for (const Kind& over : {kSingle, kDouble}) {
      const auto back = cast(over, cast(from, all_of_16_bits(), over), from);
      for (std::uint64_t i = 0; i < back.size(); ++i) {
        const std::uint64_t quiet =
            is_nan(from, i) ? i | std::uint64_t{1} << (from.fraction - 1) : i;
        ASSERT_EQ(back[i], quiet);
      }
    }
  }
}

TEST(Cast, RoundsToNearestEvenAtEveryBoundary) {
  for (const Kind& from : {kSingle, kDouble}) {
    for (const Kind& to : {kHalf, kBrain}) expect_cast(from, around_values(from, to), to);
  }
}

TEST(Cast, ConvertsRandomBits) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const Kind& from : {kSingle, kDouble}) {
    const auto bits = random_bits(from, random);
    for (const Kind& to : kKinds) {
      if (from.dtype != to.dtype) expect_cast(from, bits, to);
    }
  }
}

TEST(Cast, ConvertsRandomDoublesInTheRangeOfShortTypes) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> bits(500'000);
  for (const Kind& to : {kHalf, kBrain, kSingle}) {
    const auto span = static_cast<std::uint64_t>(to.bias() + to.fraction + 4);
    for (auto& each : bits) {
      const std::uint64_t exponent = 1023 - span + random() % (2 * span);
      each = (random() & (kDouble.sign() | ((std::uint64_t{1} << 52) - 1))) | exponent << 52;
      if (random() % 2 == 0) each &= ~((std::uint64_t{1} << 30) - 1);  // ties and near ties
    }
    expect_cast(kDouble, bits, to);
  }
}

TEST(Cast, RoundsDoublesOnce) {
  // Just above a tie of the short types; by way of Float32 it would become the tie, and go down.
  const double above_half_tie = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  const double above_brain_tie = 1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40);
  EXPECT_EQ(cast(kDouble, {std::bit_cast<std::uint64_t>(above_half_tie)}, kHalf)[0], 0x3c01U);
  EXPECT_EQ(cast(kDouble, {std::bit_cast<std::uint64_t>(above_brain_tie)}, kBrain)[0], 0x3f81U);
}

TEST(Cast, ConvertsKnownValues) {
  const auto single = [](float value) {
    return std::uint64_t{std::bit_cast<std::uint32_t>(value)};
  };
  const auto half = cast(kSingle,
                         {single(1.0F), single(65504.0F), single(65519.9F), single(65520.0F),
                          single(5.9604645e-8F), single(-0.0F), 0x7f800001, 0xff800001},
                         kHalf);
  EXPECT_EQ(half, (std::vector<std::uint64_t>{0x3c00, 0x7bff, 0x7bff, 0x7c00, 1, 0x8000, 0x7e00,
                                              0xfe00}));
  const auto brain = cast(kSingle, {single(1.0F), 0x7f7fffff, 0x7f800001, 0xffffffff, 1}, kBrain);
  EXPECT_EQ(brain, (std::vector<std::uint64_t>{0x3f80, 0x7f80, 0x7fc0, 0xffff, 0}));
}

TEST(Cast, ConvertsAnyNumberOfElements) {
  for (const std::ptrdiff_t count : {0, 1, 2, 255, 256, 257, 511, 512, 513}) {
    const auto all = all_of_16_bits();
    const std::vector<std::uint64_t> some(all.begin() + 0x3c00, all.begin() + 0x3c00 + count);
    expect_cast(kHalf, some, kDouble);
  }
}

TEST(Cast, CopiesWhatKeepsItsType) {
  for (const auto dtype : {DType::kInt64, DType::kBool, DType::kFloat8E4M3, DType::kFloat16}) {
    EXPECT_TRUE(can_cast(dtype, dtype));
    const std::vector<std::byte> in(24, std::byte{0x7d});
    std::vector<std::byte> out(24);
    cast_elements(dtype, in.data(), dtype, out.data(),
                  24 / static_cast<std::size_t>(element_size(dtype)));
    EXPECT_EQ(in, out);
  }
}

TEST(Cast, RefusesWhatIsNoFloatOf16To64Bits) {
  for (const Kind& from : kKinds) {
    for (const Kind& to : kKinds) EXPECT_TRUE(can_cast(from.dtype, to.dtype));
    for (const auto to : {DType::kInt32, DType::kBool, DType::kFloat8E5M2, DType::kString}) {
      EXPECT_FALSE(can_cast(from.dtype, to));
      EXPECT_FALSE(can_cast(to, from.dtype));
    }
  }
  EXPECT_FALSE(can_cast(DType::kInt32, DType::kInt64));
}

TEST(CastName, KnowsTheUsualOnes) {
  for (const char* name : {"fp16", "float16", "f16", "Float16", "FP16", "half"}) {
    EXPECT_EQ(dtype_from_cast_name(name), DType::kFloat16) << name;
  }
  for (const char* name : {"bf16", "bfloat16", "BFloat16"}) {
    EXPECT_EQ(dtype_from_cast_name(name), DType::kBFloat16) << name;
  }
  for (const char* name : {"fp32", "float32", "f32", "Float32"}) {
    EXPECT_EQ(dtype_from_cast_name(name), DType::kFloat32) << name;
  }
  for (const char* name : {"fp64", "float64", "f64", "Float64"}) {
    EXPECT_EQ(dtype_from_cast_name(name), DType::kFloat64) << name;
  }
  for (const char* name : {"", "int8", "fp8", "fp", "fp161", " fp16"}) {
    EXPECT_FALSE(dtype_from_cast_name(name).has_value()) << name;
  }
}

TEST(CastRule, HasAPatternOrTakesAllParameters) {
  EXPECT_EQ(parse_cast("fp32->bf16").glob, "*");
  EXPECT_EQ(parse_cast("fp32->bf16").from, DType::kFloat32);
  EXPECT_EQ(parse_cast(" fp32 -> bf16 ").to, DType::kBFloat16);
  EXPECT_EQ(parse_cast("*.weight:fp32->fp16").glob, "*.weight");
  EXPECT_EQ(parse_cast("a:b->c:fp64->fp32").glob, "a:b->c");
  EXPECT_EQ(parse_cast("a:b->c:fp64->fp32").from, DType::kFloat64);
}

TEST(CastRule, SaysWhatIsWrongWithAnExample) {
  for (const char* text : {"", "fp32", "->", "fp32->", "->bf16", "fp32->int8", "x:->bf16",
                           ":fp32->bf16", "fp32=>bf16"}) {
    test::expect_error(ErrorKind::kUsage, {std::string("'") + text + "'", "fp32->bf16"},
                       [&] { parse_cast(text); });
  }
}

TEST(Casts, TakeTheFirstRuleThatFits) {
  const Casts casts({"norm*:fp32->fp32", "*.weight:fp64->fp16", "fp32->bf16"});
  EXPECT_EQ(casts.target("norm.weight", DType::kFloat32), DType::kFloat32);
  EXPECT_EQ(casts.target("norm.weight", DType::kFloat64), DType::kFloat16);
  EXPECT_EQ(casts.target("dense.weight", DType::kFloat32), DType::kBFloat16);
  EXPECT_EQ(casts.target("dense.bias", DType::kFloat64), DType::kFloat64);
  EXPECT_EQ(casts.target("dense.bias", DType::kInt32), DType::kInt32);
  EXPECT_TRUE(Casts().empty());
  EXPECT_FALSE(casts.empty());
}

}  // namespace
}  // namespace reshardfs
