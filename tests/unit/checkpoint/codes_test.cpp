// SPDX-License-Identifier: Apache-2.0
/// Each decoder that this processor can run, on every code and scale, against values that are
/// reckoned in double. tests/platforms/test_decoders.py runs the same for another processor.
#include "checkpoint/quantized/codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs::codes_tests {
namespace {

constexpr std::uint16_t kNan = 0x7fc0;

double small_float(unsigned code, unsigned bits, unsigned fraction, int bias) {
  const unsigned size = code & ((1U << (bits - 1)) - 1);
  const double sign = (code >> (bits - 1)) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(size >> fraction);
  const double part = size & ((1U << fraction) - 1);
  const double whole = exponent == 0 ? 0 : 1U << fraction;
  return sign * std::ldexp(whole + part, std::max(exponent, 1) - bias - static_cast<int>(fraction));
}

double value_of(CodeKind kind, unsigned code, int offset) {
  switch (kind) {
    case CodeKind::kE4M3:
      return (code & 0x7fU) == 0x7fU ? NAN : small_float(code, 8, 3, 7);
    case CodeKind::kE2M1:
      return small_float(code, 4, 1, 1);
    case CodeKind::kE2M3:
      return small_float(code, 6, 3, 1);
    case CodeKind::kUnsigned:
      return static_cast<int>(code) - offset;
    case CodeKind::kSigned:
      return (code < 0x80 ? static_cast<int>(code) : static_cast<int>(code) - 0x100) - offset;
  }
  return NAN;
}

double bfloat16(unsigned bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// The nearest one: of two as near, the even one.
std::uint16_t rounded(float value) {
  if (std::isnan(value)) return kNan;
  const unsigned below = std::bit_cast<std::uint32_t>(value) >> 16U;
  if (bfloat16(below) == value) return static_cast<std::uint16_t>(below);
  const unsigned above = below + 1;
  // Where the next one is infinite, it stands where it would be.
  const double next = std::isinf(bfloat16(above)) ? std::copysign(0x1p128, value) : bfloat16(above);
  const double down = std::abs(static_cast<double>(value) - bfloat16(below));
  const double up = std::abs(next - static_cast<double>(value));
  const bool is_above = up < down || (up == down && below % 2 == 1);
  return static_cast<std::uint16_t>(is_above ? above : below);
}

std::uint16_t wanted(CodeKind kind, unsigned code, int offset, float scale) {
  // The product of two of 24 bits is exact in double.
  return rounded(static_cast<float>(value_of(kind, code, offset) * static_cast<double>(scale)));
}

struct Kind {
  CodeKind kind;
  unsigned codes;
  std::vector<int> offsets;
};
const std::vector<Kind> kKinds{{CodeKind::kE4M3, 256, {0}},
                               {CodeKind::kE2M1, 16, {0}},
                               {CodeKind::kE2M3, 64, {0}},
                               {CodeKind::kUnsigned, 16, {0, 8, 15, -3}},
                               {CodeKind::kUnsigned, 256, {0, 8, 128, -3}},
                               {CodeKind::kSigned, 256, {0, 127, -128}}};

std::vector<float> all_scales() {
  std::vector<std::byte> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  std::vector<float> scales(2 * codes.size());
  scales_as_floats(DType::kFloat8E8M0, codes, scales.data());
  scales_as_floats(DType::kFloat8E4M3, codes, scales.data() + codes.size());
  std::minstd_rand random(1);
  for (int i = 0; i < 1500; ++i) {
    scales.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random()) * 2654435761U));
  }
  using Limits = std::numeric_limits<float>;
  for (const float edge : {0.0F, Limits::infinity(), Limits::max(), Limits::denorm_min(),
                           Limits::min(), 0x1p100F, 0x1.fffffep99F, 0x1p119F, 0x1p120F}) {
    scales.push_back(edge);
    scales.push_back(-edge);
  }
  return scales;
}

std::vector<std::uint16_t> decoded(const Decoder& decoder, CodeKind kind, unsigned codes,
                                   ScaledCodes from) {
  from.bits = static_cast<unsigned>(std::bit_width(codes - 1));
  // At an odd address, and with something behind it.
  std::vector<std::byte> bytes(2 * from.codes.size() + 2, std::byte{0xee});
  decoder.decode(kind, from, bytes.data() + 1);
  EXPECT_EQ(bytes.front(), std::byte{0xee});
  EXPECT_EQ(bytes.back(), std::byte{0xee});
  std::vector<std::uint16_t> out(from.codes.size());
  std::memcpy(out.data(), bytes.data() + 1, 2 * out.size());
  return out;
}

TEST(Decoders, AreEqualOnEveryCodeAndScale) {
  constexpr std::size_t kLeast = 48;  // lanes in pairs, and one alone
  for (const Decoder& decoder : decoders()) {
    for (const auto& [kind, count, offsets] : kKinds) {
      std::vector<std::uint16_t> codes(std::max<std::size_t>(count, kLeast));
      for (std::size_t i = 0; i < codes.size(); ++i) {
        codes[i] = static_cast<std::uint16_t>(i % count);
      }
      for (const float scale : all_scales()) {
        for (const int offset : offsets) {
          const auto got =
              decoded(decoder, kind, count, {codes, codes.size(), codes.size(), &scale, &offset});
          for (std::size_t i = 0; i < codes.size(); ++i) {
            ASSERT_EQ(got[i], wanted(kind, codes[i], offset, scale))
                << decoder.name << ", kind " << static_cast<int>(kind) << ", code " << codes[i]
                << ", scale " << scale << ", offset " << offset;
          }
        }
      }
    }
  }
}

TEST(Decoders, AreEqualWhereEachLaneHasAScale) {
  constexpr std::size_t kRun = 16;
  std::vector<std::uint16_t> codes(3 * kRun);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i % kRun);
  for (const Decoder& decoder : decoders()) {
    for (const CodeKind kind : {CodeKind::kE2M1, CodeKind::kUnsigned}) {
      for (const float scale : all_scales()) {
        const std::array scales{scale, 0.7F, scale};
        const std::array offsets{0, 0, 0};
        const auto got =
            decoded(decoder, kind, kRun, {codes, kRun, kRun, scales.data(), offsets.data()});
        for (std::size_t i = 0; i < codes.size(); ++i) {
          ASSERT_EQ(got[i], wanted(kind, codes[i], 0, scales[i / kRun]))
              << decoder.name << ", kind " << static_cast<int>(kind) << ", code " << codes[i]
              << ", scale " << scales[i / kRun];
        }
      }
    }
  }
}

TEST(Decoders, TakeRunsOfAnyLength) {
  std::minstd_rand random(2);
  const std::vector<float> scales = all_scales();
  for (const Decoder& decoder : decoders()) {
    for (const std::size_t run : {1U, 2U, 3U, 7U, 15U, 16U, 17U, 30U, 32U, 48U, 128U}) {
      for (std::size_t size = 1; size < 200; size += 1 + size / 20) {
        const std::size_t first = 1 + random() % run;
        const auto& [kind, count, offsets] = kKinds[random() % kKinds.size()];
        std::vector<std::uint16_t> codes(size);
        std::vector<float> own(size + 1);
        std::vector<int> zeros(size + 1);
        for (auto& code : codes) code = static_cast<std::uint16_t>(random() % count);
        for (auto& scale : own) scale = scales[random() % scales.size()];
        for (auto& zero : zeros) zero = static_cast<int>(random() % 16);
        const auto got =
            decoded(decoder, kind, count, {codes, first, run, own.data(), zeros.data()});
        for (std::size_t i = 0; i < size; ++i) {
          const std::size_t of = (i + run - first) / run;
          const bool is_float = kind != CodeKind::kUnsigned && kind != CodeKind::kSigned;
          ASSERT_EQ(got[i], wanted(kind, codes[i], is_float ? 0 : zeros[of], own[of]))
              << decoder.name << ", run " << run << " of " << size << ", first " << first << ", "
              << i;
        }
      }
    }
  }
}

/// @param field which of the fields of `bits` bits a code is in
template <typename Field>
void expect_unpacked(CodePacking packing, unsigned bits, std::size_t codes, Field&& field) {
  std::minstd_rand random(bits);
  std::string bytes((codes * bits + 7) / 8, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8U);
  const auto bit = [&](std::size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(bytes[at / 8])) >> at % 8 & 1U;
  };
  for (const Decoder& decoder : decoders()) {
    for (std::size_t first = 0; first < codes; ++first) {
      for (std::size_t size : {std::size_t{1}, (codes - first) / 2, codes - first}) {
        std::vector<std::uint16_t> out(size);
        decoder.unpack({packing, bits, std::as_bytes(std::span(bytes)), first}, out);
        for (std::size_t i = 0; i < size; ++i) {
          unsigned want = 0;
          for (unsigned of = 0; of < bits; ++of) {
            want |= bit(field(first + i) * bits + of) << of;
          }
          ASSERT_EQ(out[i], want) << decoder.name << ", " << bits << " bits, from " << first << ", "
                                  << i;
        }
      }
    }
  }
}

TEST(Decoders, FindCodesAtAnyBit) {
  for (unsigned bits = 1; bits <= 8; ++bits) {
    for (const std::size_t codes : {8U, 21U, 64U, 131U}) {
      expect_unpacked(CodePacking::kStream, bits, codes, [](std::size_t code) { return code; });
    }
  }
}

TEST(Decoders, KnowTheOrderOfInterleavedWords) {
  constexpr std::array<std::size_t, 8> kFields{0, 4, 1, 5, 2, 6, 3, 7};
  for (const std::size_t codes : {8U, 64U, 136U}) {
    expect_unpacked(CodePacking::kInterleaved, 4, codes,
                    [&](std::size_t code) { return code / 8 * 8 + kFields[code % 8]; });
  }
}

TEST(Decoders, FindTheCodesInOneHalfOfEachByte) {
  std::minstd_rand random(3);
  std::vector<std::byte> bytes(131);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8U);
  for (const Decoder& decoder : decoders()) {
    for (const bool upper : {false, true}) {
      for (std::size_t size = 1; size <= bytes.size(); size += 1 + size / 10) {
        std::vector<std::uint16_t> out(size);
        decoder.unpack_halves(std::span(bytes).first(size), upper, out.data());
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_EQ(out[i], std::to_integer<unsigned>(bytes[i]) >> (upper ? 4U : 0U) & 15U)
              << decoder.name << ", " << size;
        }
      }
    }
  }
}

TEST(Decoders, DecodeIntegersInOneHalfOfEachByte) {
  constexpr std::array kScales{0.5F, -0x1p-3F, 0x1p120F, std::numeric_limits<float>::infinity(),
                               3.0F};
  constexpr std::array kOffsets{8, 0, 15, 3, 7};
  std::minstd_rand random(5);
  std::vector<std::byte> bytes(3 * 64 + 21);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8U);
  for (const Decoder& decoder : decoders()) {
    if (decoder.decode_halves == nullptr) continue;
    for (const std::size_t first_run : {64U, 33U, 1U}) {
      for (const bool upper : {false, true}) {
        ScaledCodes scaled{.first_run = first_run, .run = 64};
        scaled.scales = kScales.data();
        scaled.offsets = kOffsets.data();
        scaled.bits = 4;
        std::vector<std::byte> out(2 * bytes.size());
        decoder.decode_halves(bytes, upper, scaled, out.data());
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          const std::size_t run = i < first_run ? 0 : 1 + (i - first_run) / 64;
          const auto code = static_cast<std::uint16_t>(
              std::to_integer<unsigned>(bytes[i]) >> (upper ? 4U : 0U) & 15U);
          std::uint16_t got = 0;
          std::memcpy(&got, out.data() + 2 * i, sizeof got);
          ASSERT_EQ(got, wanted(CodeKind::kUnsigned, code, kOffsets.at(run), kScales.at(run)))
              << decoder.name << ", " << first_run << ", " << i;
        }
      }
    }
  }
}

TEST(Decoders, AddPowersOfTwoToExponents) {
  constexpr std::size_t kCodes = 37 + 64;
  std::vector<std::byte> bytes(kCodes);
  std::vector<std::uint16_t> powers(kCodes);
  for (const Decoder& decoder : decoders()) {
    for (int power = -125; power <= 125; ++power) {
      const auto power_at = [&](std::size_t i) { return i / 16 % 2 == 0 ? power : -power; };
      for (std::size_t i = 0; i < kCodes; ++i) {
        // All pairs of codes, over the powers.
        bytes[i] = static_cast<std::byte>(i % 16 +
                                          16 * ((i + static_cast<std::size_t>(power + 125)) % 16));
        powers[i] = static_cast<std::uint16_t>(power_at(i) * (1 << 7));
      }
      for (const bool upper : {false, true}) {
        std::vector<std::byte> out(2 * kCodes);
        decoder.decode_powers(bytes, upper, powers.data(), out.data());
        for (std::size_t i = 0; i < kCodes; ++i) {
          std::uint16_t got = 0;
          std::memcpy(&got, out.data() + 2 * i, sizeof got);
          const auto code = static_cast<std::uint16_t>(
              std::to_integer<unsigned>(bytes[i]) >> (upper ? 4U : 0U) & 15U);
          const float scale = std::ldexp(1.0F, power_at(i));
          ASSERT_EQ(got, wanted(CodeKind::kE2M1, code, 0, scale))
              << decoder.name << ", code " << code << ", scale " << scale;
        }
      }
    }
  }
}

TEST(Decoders, AreThoseOfThisProcessor) {
  EXPECT_EQ(decoders().front().name, "plain");
#if defined(__x86_64__)
  EXPECT_EQ(decoders().size() == 2,
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"));
#endif
}

}  // namespace
}  // namespace reshardfs::codes_tests
