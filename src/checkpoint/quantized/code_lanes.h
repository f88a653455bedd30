// SPDX-License-Identifier: Apache-2.0
/// What decoders have in common: a row of codes in lanes of 16, each with one scale or with one for
/// each code.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/quantized/codes.h"

namespace reshardfs {

/// A number that compilers know makes vectors of loops.
constexpr std::size_t kLane = 16;

/// Of any alignment.
using LooseShort [[gnu::aligned(1), gnu::may_alias]] = std::uint16_t;
using LooseWord [[gnu::aligned(1), gnu::may_alias]] = std::uint32_t;

/// A small float: `Bits` with the sign.
template <unsigned Bits, unsigned Fraction, unsigned Bias>
struct SmallFloat {
  static constexpr unsigned kBits = Bits;
  static constexpr unsigned kFraction = Fraction;
  static constexpr unsigned kBias = Bias;
  static constexpr std::uint32_t kSize = (1U << (Bits - 1)) - 1;  ///< all bits but the sign
  /// Whether the largest code is NaN: of these formats, only E4M3 has NaNs.
  static constexpr bool kHasNan = Bits == 8;
};
using E4M3 = SmallFloat<8, 3, 7>;
using E2M1 = SmallFloat<4, 1, 1>;
using E2M3 = SmallFloat<6, 3, 1>;

/// An integer: the code with some bits turned, less as much and an offset.
template <int Turned>
struct SmallInteger {
  static constexpr int kTurned = Turned;
};
using UnsignedCode = SmallInteger<0>;
struct ShortCode : UnsignedCode {};  ///< of four bits and fewer
using SignedCode = SmallInteger<0x80>;

/// Some lanes of codes. Scales and offsets: one for each `of_scale` lanes, or one for each code.
struct CodeLanes {
  const std::uint16_t* codes;
  std::size_t count;
  std::size_t of_scale;
  const float* scales;
  const int* offsets;
};

/// A row in lanes; what fills none is copied to one.
/// @tparam Decoder decode<Kind, each>(lanes, out), where each code may have its own scale.
template <typename Decoder, typename Kind>
void decode_row(const ScaledCodes& from, std::byte* out) noexcept {
  const std::uint16_t* codes = from.codes.data();
  std::size_t size = from.codes.size();
  const float* scales = from.scales;
  const int* offsets = from.offsets;
  std::size_t left = from.first_run;  // of the run
  const auto go_on = [&](std::size_t count) {
    codes += count;
    size -= count;
    out += 2 * count;
  };
  std::array<std::uint16_t, kLane> some_codes{};
  std::array<float, kLane> some_scales{};
  std::array<int, kLane> some_offsets{};
  std::array<std::byte, 2 * kLane> made;
  while (size > 0) {
    if (from.run == 1 && size >= kLane) {
      const std::size_t lanes = size / kLane;
      Decoder::template decode<Kind, true>({codes, lanes, 1, scales, offsets}, out);
      scales += lanes * kLane;
      offsets += lanes * kLane;
      go_on(lanes * kLane);
    } else if (left == from.run && left % kLane == 0 && size >= left) {
      const std::size_t runs = size / left;
      const std::size_t of_run = left / kLane;
      Decoder::template decode<Kind, false>({codes, runs * of_run, of_run, scales, offsets}, out);
      scales += runs;
      offsets += runs;
      go_on(runs * left);
    } else if (std::min(left, size) >= kLane) {
      const std::size_t lanes = std::min(left, size) / kLane;
      Decoder::template decode<Kind, false>({codes, lanes, lanes, scales, offsets}, out);
      left -= lanes * kLane;
      go_on(lanes * kLane);
    } else {
      const std::size_t count = std::min(kLane, size);
      std::copy_n(codes, count, some_codes.begin());
      for (std::size_t i = 0; i < count; ++i) {
        some_scales[i] = *scales;
        some_offsets[i] = *offsets;
        if (--left > 0) continue;
        ++scales;
        ++offsets;
        left = from.run;
      }
      Decoder::template decode<Kind, true>(
          {some_codes.data(), 1, 1, some_scales.data(), some_offsets.data()}, made.data());
      std::copy_n(made.data(), 2 * count, out);
      go_on(count);
      continue;
    }
    if (left == 0) {
      ++scales;
      ++offsets;
      left = from.run;
    }
  }
}

template <typename Decoder>
void decode_with(CodeKind kind, const ScaledCodes& from, std::byte* out) noexcept {
  switch (kind) {
    case CodeKind::kE4M3:
      return decode_row<Decoder, E4M3>(from, out);
    case CodeKind::kE2M1:
      return decode_row<Decoder, E2M1>(from, out);
    case CodeKind::kE2M3:
      return decode_row<Decoder, E2M3>(from, out);
    case CodeKind::kUnsigned:
      return from.bits <= 4 ? decode_row<Decoder, ShortCode>(from, out)
                            : decode_row<Decoder, UnsignedCode>(from, out);
    case CodeKind::kSigned:
      return decode_row<Decoder, SignedCode>(from, out);
  }
}

/// With code for every processor, of which compilers make vectors.
struct PlainDecoder {
  template <typename Kind, bool kEach>
  static void decode(const CodeLanes& lanes, std::byte* out) noexcept {
    for (std::size_t lane = 0; lane < lanes.count; ++lane) {
      const std::size_t scale = kEach ? lane * kLane : lane / lanes.of_scale;
      decode_lane<Kind, kEach>(lanes.codes + lane * kLane, lanes.scales + scale,
                               lanes.offsets + scale, out + lane * 2 * kLane);
    }
  }

  template <typename Kind, bool kEach>
  [[gnu::always_inline]] static void decode_lane(const std::uint16_t* __restrict codes,
                                                 const float* __restrict scales,
                                                 const int* __restrict offsets,
                                                 std::byte* __restrict out) noexcept {
    // NOLINTNEXTLINE(modernize-use-auto): forgets the alignment
    LooseShort* const made = reinterpret_cast<LooseShort*>(out);
    for (std::size_t i = 0; i < kLane; ++i) {
      const std::size_t of = kEach ? i : 0;
      made[i] = to_bfloat16(value<Kind>(codes[i], offsets[of]) * scales[of]);
    }
  }

  template <typename Kind>
  [[gnu::always_inline]] static float value(std::uint16_t code, int offset) noexcept {
    if constexpr (requires { Kind::kTurned; }) {
      return static_cast<float>((code ^ Kind::kTurned) - Kind::kTurned - offset);
    } else {
      // The fields take their places in a float32, whose bias is higher. What is subnormal is given
      // the exponent of 1, which is taken away again: no processor is slow at that.
      constexpr std::uint32_t kRebias = (127U - Kind::kBias) << 23U;
      constexpr std::uint32_t kOne = kRebias + (1U << 23U);
      const std::uint32_t size = (code & Kind::kSize) << (23 - Kind::kFraction);
      const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size + kOne) -
                                                      std::bit_cast<float>(kOne));
      std::uint32_t exact = select(size < (1U << 23U), small, size + kRebias);
      if constexpr (Kind::kHasNan) {
        exact = select((code & Kind::kSize) == Kind::kSize, kNanOfFloat, exact);
      }
      return std::bit_cast<float>(exact | (code & (Kind::kSize + 1U)) << (32 - Kind::kBits));
    }
  }

 private:
  static constexpr std::uint32_t kNanOfFloat = 0x7fc00000;

  /// In arithmetic: compilers would make a branch of `?:`, and no vectors then.
  [[gnu::always_inline]] static std::uint32_t select(bool condition, std::uint32_t yes,
                                                     std::uint32_t no) noexcept {
    const std::uint32_t mask = -static_cast<std::uint32_t>(condition);
    return (yes & mask) | (no & ~mask);
  }

  /// Which NaN a product of a NaN is, depends on the processor; this is the one that PyTorch rounds
  /// to.
  [[gnu::always_inline]] static std::uint16_t to_bfloat16(float value) noexcept {
    constexpr std::uint32_t kSize = 0x7fffffff;
    constexpr std::uint32_t kInfinity = 0x7f800000;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
    return static_cast<std::uint16_t>(
        select((bits & kSize) > kInfinity, kNanOfFloat >> 16U, rounded));
  }
};

void decode_powers_plain(std::span<const std::byte> bytes, bool upper, const std::uint16_t* powers,
                         std::byte* out) noexcept;

#if defined(__x86_64__)
/// With AVX2 and F16C. @pre the processor has both
void decode_with_avx2(CodeKind kind, const ScaledCodes& from, std::byte* out) noexcept;
void decode_halves_with_avx2(std::span<const std::byte> bytes, bool upper,
                             const ScaledCodes& scaled, std::byte* out) noexcept;
void decode_powers_with_avx2(std::span<const std::byte> bytes, bool upper,
                             const std::uint16_t* powers, std::byte* out) noexcept;
#endif

}  // namespace reshardfs
