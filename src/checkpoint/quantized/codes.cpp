// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/cast.h"

namespace reshardfs {
namespace {

/// A number that compilers know makes vectors of the loop.
constexpr std::size_t kLane = 16;
constexpr std::uint32_t kSign = 1U << 31U;
constexpr std::uint32_t kInfinity = 0x7f800000;
constexpr std::uint32_t kNan = 0x7fc00000;

/// Which NaN a product of a NaN is, depends on the processor; this is the one that PyTorch rounds
/// to.
std::uint16_t to_bfloat16(float value, bool is_nan) noexcept {
  constexpr std::uint16_t kNanOf16 = 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
  const std::uint32_t nan =
      static_cast<std::uint32_t>(is_nan) | static_cast<std::uint32_t>((bits & ~kSign) > kInfinity);
  return static_cast<std::uint16_t>(nan != 0 ? kNanOf16 : rounded);
}

/// Small floats: the fields take their places in a float32, whose bias is higher. The product is
/// exact, also for what is subnormal on the left.
template <unsigned Bits, unsigned Fraction, int Bias>
struct SmallFloat {
  static constexpr unsigned kUp = 23 - Fraction;
  static constexpr std::uint32_t kSize = (1U << (Bits - 1)) - 1;
  static constexpr float kBias =
      std::bit_cast<float>(static_cast<std::uint32_t>(254 - Bias) << 23U);

  static float value(std::uint8_t code, int /*offset*/) noexcept {
    const std::uint32_t size = code & kSize;
    const auto exact = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size << kUp) * kBias);
    return std::bit_cast<float>(exact | (code & (kSize + 1U)) << (32 - Bits));
  }
  /// Of these formats, only E4M3 has NaNs.
  static bool is_nan(std::uint8_t code) noexcept { return Bits == 8 && (code & kSize) == kSize; }
};

using E4M3 = SmallFloat<8, 3, 7>;
using E2M1 = SmallFloat<4, 1, 1>;
using E2M3 = SmallFloat<6, 3, 1>;

struct Unsigned {
  static float value(std::uint8_t code, int offset) noexcept {
    return static_cast<float>(code - offset);
  }
  static bool is_nan(std::uint8_t /*code*/) noexcept { return false; }
};

struct Signed {
  static float value(std::uint8_t code, int offset) noexcept {
    return static_cast<float>(static_cast<std::int8_t>(code) - offset);
  }
  static bool is_nan(std::uint8_t /*code*/) noexcept { return false; }
};

template <typename Kind>
void decode_lane(const std::uint8_t* codes, int offset, float scale, std::byte* out) noexcept {
  std::array<std::uint16_t, kLane> made;
  for (std::size_t i = 0; i < kLane; ++i) {
    made[i] = to_bfloat16(Kind::value(codes[i], offset) * scale, Kind::is_nan(codes[i]));
  }
  std::memcpy(out, made.data(), sizeof made);
}

template <typename Kind>
void decode_of(std::span<const std::uint8_t> codes, int offset, float scale,
               std::byte* out) noexcept {
  for (; codes.size() >= kLane; codes = codes.subspan(kLane), out += 2 * kLane) {
    decode_lane<Kind>(codes.data(), offset, scale, out);
  }
  if (codes.empty()) return;
  std::array<std::uint8_t, kLane> some{};
  std::array<std::byte, 2 * kLane> made;
  std::copy(codes.begin(), codes.end(), some.begin());
  decode_lane<Kind>(some.data(), offset, scale, made.data());
  std::memcpy(out, made.data(), 2 * codes.size());
}

template <typename Kind>
void decode_each_of(std::span<const std::uint8_t> codes, const int* offsets, const float* scales,
                    std::byte* out) noexcept {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint16_t made =
        to_bfloat16(Kind::value(codes[i], offsets[i]) * scales[i], Kind::is_nan(codes[i]));
    std::memcpy(out + 2 * i, &made, sizeof made);
  }
}

/// Calls `with` with a value of the type for a kind.
template <typename With>
void for_kind(CodeKind kind, With&& with) noexcept {
  switch (kind) {
    case CodeKind::kE4M3:
      return with(E4M3());
    case CodeKind::kE2M1:
      return with(E2M1());
    case CodeKind::kE2M3:
      return with(E2M3());
    case CodeKind::kUnsigned:
      return with(Unsigned());
    case CodeKind::kSigned:
      return with(Signed());
  }
}

float from_e8m0(std::byte stored) noexcept {
  constexpr std::uint32_t kHalfOfTheSmallest = 0x00400000;  // 2^-127
  const auto bits = std::to_integer<std::uint32_t>(stored);
  if (bits == 0xff) return std::bit_cast<float>(kNan);
  return std::bit_cast<float>(bits == 0 ? kHalfOfTheSmallest : bits << 23U);
}

float from_e4m3(std::byte stored) noexcept {
  const auto code = std::to_integer<std::uint8_t>(stored);
  return E4M3::is_nan(code) ? std::bit_cast<float>(kNan) : E4M3::value(code, 0);
}

}  // namespace

void unpack_stream(std::span<const std::byte> row, unsigned bits, std::uint64_t first,
                   std::span<std::uint8_t> out) noexcept {
  if (bits == 8) {
    std::memcpy(out.data(), row.data() + first, out.size());
    return;
  }
  std::size_t done = 0;
  if (bits == 4) {
    if (first % 2 == 1 && !out.empty()) {
      out[done++] = std::to_integer<std::uint8_t>(row[first / 2]) >> 4U;
    }
    const std::byte* bytes = row.data() + (first + done) / 2;
    for (; done + 2 <= out.size(); done += 2, ++bytes) {
      const auto both = std::to_integer<std::uint8_t>(*bytes);
      out[done] = both & 15U;
      out[done + 1] = both >> 4U;
    }
    if (done < out.size()) out[done] = std::to_integer<std::uint8_t>(*bytes) & 15U;
    return;
  }
  const unsigned mask = (1U << bits) - 1;
  for (std::uint64_t bit = first * bits; done < out.size(); bit += bits, ++done) {
    const std::uint64_t at = bit / 8;
    unsigned some = std::to_integer<unsigned>(row[at]);
    if (at + 1 < row.size()) some |= std::to_integer<unsigned>(row[at + 1]) << 8U;
    out[done] = static_cast<std::uint8_t>(some >> bit % 8 & mask);
  }
}

void unpack_interleaved(std::span<const std::byte> row, std::uint64_t first,
                        std::span<std::uint8_t> out) noexcept {
  // Where a code of a word is.
  constexpr std::array<std::uint64_t, 8> kPlaces{0, 4, 1, 5, 2, 6, 3, 7};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t code = first + i;
    unpack_stream(row, 4, code / 8 * 8 + kPlaces[code % 8], out.subspan(i, 1));
  }
}

void decode(CodeKind kind, std::span<const std::uint8_t> codes, int offset, float scale,
            std::byte* out) noexcept {
  for_kind(kind, [&](auto of) { decode_of<decltype(of)>(codes, offset, scale, out); });
}

void decode_each(CodeKind kind, std::span<const std::uint8_t> codes, const int* offsets,
                 const float* scales, std::byte* out) noexcept {
  for_kind(kind, [&](auto of) { decode_each_of<decltype(of)>(codes, offsets, scales, out); });
}

bool is_scale_type(DType dtype) noexcept {
  constexpr std::array kTypes{DType::kFloat32,    DType::kBFloat16,   DType::kFloat16,
                              DType::kFloat8E4M3, DType::kFloat8E8M0, DType::kUInt8};
  return std::find(kTypes.begin(), kTypes.end(), dtype) != kTypes.end();
}

void scales_as_floats(DType from, std::span<const std::byte> in, float* out) noexcept {
  switch (from) {
    case DType::kFloat8E8M0:
    case DType::kUInt8:
      std::transform(in.begin(), in.end(), out, from_e8m0);
      return;
    case DType::kFloat8E4M3:
      std::transform(in.begin(), in.end(), out, from_e4m3);
      return;
    default:
      cast_elements(from, in.data(), DType::kFloat32, reinterpret_cast<std::byte*>(out),
                    in.size() / static_cast<std::size_t>(element_size(from)));
  }
}

}  // namespace reshardfs
