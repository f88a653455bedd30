// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/cast.h"
#include "checkpoint/quantized/code_lanes.h"

namespace reshardfs {
namespace {

/// So many codes fill whole bytes.
constexpr std::size_t kEight = 8;

/// Eight codes of some bits each.
struct Stream {
  unsigned bits;

  std::size_t bytes() const noexcept { return bits; }
  [[gnu::always_inline]] void unpack(std::uint64_t stored, std::uint16_t* out) const noexcept {
    const std::uint64_t mask = (1U << bits) - 1;
    for (unsigned i = 0; i < kEight; ++i) {
      out[i] = static_cast<std::uint16_t>(stored >> i * bits & mask);
    }
  }
};

/// Fields 0 to 3 of a word are the codes 0, 2, 4 and 6, and the others those between them.
struct Interleaved {
  static constexpr std::size_t bytes() noexcept { return 4; }
  [[gnu::always_inline]] static void unpack(std::uint64_t stored, std::uint16_t* out) noexcept {
    using Pairs = std::uint32_t __attribute__((vector_size(2 * kEight)));
    const auto word = static_cast<std::uint32_t>(stored);
    const Pairs pairs = (Pairs{word, word, word, word} >> Pairs{0, 4, 8, 12}) & 0x000f000fU;
    std::memcpy(out, &pairs, sizeof pairs);
  }
};

template <typename Packing>
[[gnu::always_inline]] inline void unpack_eights(const Packing& packing, const PackedCodes& from,
                                                 std::span<std::uint16_t> out) noexcept {
  const std::byte* in = from.bytes.data() + from.first / kEight * packing.bytes();
  const std::byte* const end = from.bytes.data() + from.bytes.size();
  std::uint16_t* codes = out.data();
  std::size_t left = out.size();
  std::size_t skipped = from.first % kEight;
  std::uint64_t stored = 0;
  while (left > 0) {
    for (; skipped == 0 && left >= kEight && in + sizeof stored <= end; left -= kEight) {
      std::memcpy(&stored, in, sizeof stored);
      packing.unpack(stored, codes);
      in += packing.bytes();
      codes += kEight;
    }
    if (left == 0) return;
    std::array<std::uint16_t, kEight> some;
    stored = 0;
    std::memcpy(&stored, in, std::min(static_cast<std::size_t>(end - in), packing.bytes()));
    packing.unpack(stored, some.data());
    const std::size_t count = std::min(kEight - skipped, left);
    codes = std::copy_n(some.begin() + skipped, count, codes);
    left -= count;
    in = std::min(in + packing.bytes(), end);
    skipped = 0;
  }
}

/// Calls unpack(count, from, out) for all codes, with a count that compilers know: pointers that
/// point to nothing else make vectors of a loop.
template <std::size_t kBytes, typename Unpack>
[[gnu::always_inline]] inline void for_lanes(const std::byte* from, std::span<std::uint16_t> out,
                                             Unpack&& unpack) noexcept {
  std::size_t at = 0;
  for (; at + 2 * kLane <= out.size(); at += 2 * kLane) {
    unpack(std::integral_constant<std::size_t, 2 * kLane>(), from + at * kBytes, out.data() + at);
  }
  for (; at < out.size(); ++at) {
    unpack(std::integral_constant<std::size_t, 1>(), from + at * kBytes, out.data() + at);
  }
}

[[gnu::always_inline]] inline void unpack_bytes(const std::byte* from,
                                                std::span<std::uint16_t> out) noexcept {
  for_lanes<1>(from, out,
               [](auto kCount, const std::byte* __restrict bytes, std::uint16_t* __restrict codes) {
                 for (std::size_t i = 0; i < kCount; ++i)
                   codes[i] = std::to_integer<std::uint16_t>(bytes[i]);
               });
}

/// Pairs of codes, as many as make vectors; the rest is left.
[[gnu::always_inline]] inline std::size_t unpack_nibbles(const std::byte* from,
                                                         std::span<std::uint16_t> out) noexcept {
  const auto unpack = [](const std::byte* __restrict pairs, std::uint16_t* __restrict codes) {
    // NOLINTNEXTLINE(modernize-use-auto): forgets the alignment
    LooseWord* const both = reinterpret_cast<LooseWord*>(codes);
    for (std::size_t i = 0; i < kLane; ++i) {
      const auto pair = std::to_integer<std::uint32_t>(pairs[i]);
      both[i] = (pair | pair << 12U) & 0x000f000fU;
    }
  };
  std::size_t done = 0;
  for (; done + 2 * kLane <= out.size(); done += 2 * kLane) {
    unpack(from + done / 2, out.data() + done);
  }
  return done;
}

/// @tparam kShift a number that compilers know, or they would widen the codes.
template <unsigned kShift>
[[gnu::always_inline]] inline void unpack_bits(std::span<const std::byte> bytes,
                                               std::uint16_t* out) noexcept {
  for_lanes<1>(bytes.data(), std::span(out, bytes.size()),
               [](auto kCount, const std::byte* __restrict in, std::uint16_t* __restrict codes) {
                 for (std::size_t i = 0; i < kCount; ++i) {
                   codes[i] = static_cast<std::uint16_t>(
                       std::to_integer<std::uint8_t>(in[i]) >> kShift & 0xf);
                 }
               });
}

[[gnu::always_inline]] inline void unpack_any_halves(std::span<const std::byte> bytes, bool upper,
                                                     std::uint16_t* out) noexcept {
  return upper ? unpack_bits<4>(bytes, out) : unpack_bits<0>(bytes, out);
}

[[gnu::always_inline]] inline void unpack_any(const PackedCodes& from,
                                              std::span<std::uint16_t> out) noexcept {
  if (from.packing == CodePacking::kInterleaved) return unpack_eights(Interleaved(), from, out);
  if (from.bits == 8) return unpack_bytes(from.bytes.data() + from.first, out);
  PackedCodes rest = from;
  if (from.bits == 4 && from.first % 2 == 0) {
    const std::size_t done = unpack_nibbles(from.bytes.data() + from.first / 2, out);
    rest.first += done;
    out = out.subspan(done);
  }
  unpack_eights(Stream{from.bits}, rest, out);
}

void unpack_plain(const PackedCodes& from, std::span<std::uint16_t> out) noexcept {
  unpack_any(from, out);
}

void unpack_halves_plain(std::span<const std::byte> bytes, bool upper,
                         std::uint16_t* out) noexcept {
  unpack_any_halves(bytes, upper, out);
}

void decode_plain(CodeKind kind, const ScaledCodes& from, std::byte* out) noexcept {
  decode_with<PlainDecoder>(kind, from, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void unpack_with_avx2(const PackedCodes& from,
                                              std::span<std::uint16_t> out) noexcept {
  unpack_any(from, out);
}

[[gnu::target("avx2")]] void unpack_halves_with_avx2(std::span<const std::byte> bytes, bool upper,
                                                     std::uint16_t* out) noexcept {
  unpack_any_halves(bytes, upper, out);
}
#endif

// On aarch64, the plain code has the vectors of every such processor.
constexpr std::array kDecoders {
  Decoder{"plain", unpack_plain, unpack_halves_plain, decode_powers_plain, nullptr, decode_plain},
#if defined(__x86_64__)
      Decoder{"AVX2",
              unpack_with_avx2,
              unpack_halves_with_avx2,
              decode_powers_with_avx2,
              decode_halves_with_avx2,
              decode_with_avx2},
#endif
};

// --- scales --------------------------------------------------------------------------------------

float from_e8m0(std::byte stored) noexcept {
  constexpr std::uint32_t kHalfOfTheSmallest = 0x00400000;  // 2^-127
  const auto bits = std::to_integer<std::uint32_t>(stored);
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(bits == 0 ? kHalfOfTheSmallest : bits << 23U);
}

float from_e4m3(std::byte stored) noexcept {
  return PlainDecoder::value<E4M3>(std::to_integer<std::uint16_t>(stored), 0);
}

template <float (*kFrom)(std::byte)>
void look_up(std::span<const std::byte> in, float* out) noexcept {
  static const std::array<float, 256> kValues = [] {
    std::array<float, 256> values{};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = kFrom(static_cast<std::byte>(i));
    return values;
  }();
  for (const std::byte stored : in) *out++ = kValues[std::to_integer<std::size_t>(stored)];
}

/// @tparam kShift a number that compilers know, as above.
template <unsigned kShift>
void add_powers(std::span<const std::byte> bytes, const std::uint16_t* __restrict powers,
                std::byte* __restrict out) noexcept {
  constexpr unsigned kHalf = 126U << 7U;  // 0.5
  // NOLINTNEXTLINE(modernize-use-auto): forgets the alignment
  LooseShort* const made = reinterpret_cast<LooseShort*>(out);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    // 1 has no fraction, and 0 is all zeros. In 16 bits, as vectors should be.
    const auto code = static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[i]) >> kShift);
    const auto size = static_cast<std::uint16_t>(code & E2M1::kSize);
    const std::uint16_t of_one = size == 1 ? 1U << 6U : 0;
    const std::uint16_t of_all = size == 0 ? 0 : 0xffff;
    const auto value = static_cast<std::uint16_t>(kHalf + powers[i] + (size << 6U) - of_one);
    made[i] = static_cast<std::uint16_t>((value & of_all) | (code & 8U) << 12U);
  }
}

}  // namespace

void decode_powers_plain(std::span<const std::byte> bytes, bool upper, const std::uint16_t* powers,
                         std::byte* out) noexcept {
  return upper ? add_powers<4>(bytes, powers, out) : add_powers<0>(bytes, powers, out);
}

std::span<const Decoder> decoders() noexcept {
#if defined(__x86_64__)
  static const bool has_avx2 =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  if (!has_avx2) return std::span(kDecoders).first(1);
#endif
  return kDecoders;
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
      look_up<from_e8m0>(in, out);
      return;
    case DType::kFloat8E4M3:
      look_up<from_e4m3>(in, out);
      return;
    default:
      cast_elements(from, in.data(), DType::kFloat32, reinterpret_cast<std::byte*>(out),
                    in.size() / static_cast<std::size_t>(element_size(from)));
  }
}

}  // namespace reshardfs
