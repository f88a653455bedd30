// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/code_lanes.h"

#if defined(__x86_64__)

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include <immintrin.h>

namespace reshardfs {
namespace {

#define RESHARDFS_AVX2 [[gnu::target("avx2,f16c"), gnu::always_inline]]

/// Without NaNs. @return in the lower halves
RESHARDFS_AVX2 inline __m256i rounded(__m256 value) noexcept {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff));
  return _mm256_srli_epi32(_mm256_add_epi32(up, last), 16);
}

template <bool kEach>
RESHARDFS_AVX2 inline __m256 scales_at(const float* scales, std::size_t at) noexcept {
  return kEach ? _mm256_loadu_ps(scales + at) : _mm256_broadcast_ss(scales);
}

template <bool kEach>
RESHARDFS_AVX2 inline __m256i offsets_at(const int* offsets, std::size_t at) noexcept {
  return kEach ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offsets + at))
               : _mm256_set1_epi32(*offsets);
}

// --- tables --------------------------------------------------------------------------------------

/// Whether products with a scale are neither NaN nor infinite.
inline bool is_small(float scale) noexcept {
  return std::abs(scale) < 0x1p100F;
}

/// The bytes of sixteen values in BFloat16, apart, in each half of a vector: an instruction finds
/// the bytes of 32 codes.
struct Table {
  __m256i low;
  __m256i high;
};

struct TwoLanes {
  __m256i first;
  __m256i second;
};

/// Multiples of a scale: of 0 to 15, less an offset.
RESHARDFS_AVX2 inline Table table_of_multiples(float scale, int offset) noexcept {
  const __m256 low_factors = _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 high_factors = _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15);
  const __m256 scales = _mm256_set1_ps(scale);
  const __m256 less = _mm256_set1_ps(static_cast<float>(offset));
  const __m256i low_values = rounded(_mm256_mul_ps(_mm256_sub_ps(low_factors, less), scales));
  const __m256i high_values = rounded(_mm256_mul_ps(_mm256_sub_ps(high_factors, less), scales));
  const __m256i byte = _mm256_set1_epi32(0xff);
  // Values 0 to 3 and 8 to 11, each twice, and then the others.
  const __m256i low =
      _mm256_packus_epi32(_mm256_and_si256(low_values, byte), _mm256_and_si256(high_values, byte));
  const __m256i high =
      _mm256_packus_epi32(_mm256_srli_epi32(low_values, 8), _mm256_srli_epi32(high_values, 8));
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  return {_mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, low), in_order),
          _mm256_permutevar8x32_epi32(_mm256_packus_epi16(high, high), in_order)};
}

/// All codes of E2M1, with a scale for each half of a vector.
RESHARDFS_AVX2 inline Table table_of_e2m1(float first, float second) noexcept {
  const __m256 sizes = _mm256_setr_ps(0, 0.5F, 1, 1.5F, 2, 3, 4, 6);
  const __m256i of_first = rounded(_mm256_mul_ps(sizes, _mm256_set1_ps(first)));
  const __m256i of_second = rounded(_mm256_mul_ps(sizes, _mm256_set1_ps(second)));
  const __m256i words =
      _mm256_permute4x64_epi64(_mm256_packus_epi32(of_first, of_second), 0b11011000);
  constexpr long long kLow = 0x0e0c0a0806040200;
  constexpr long long kHigh = 0x0f0d0b0907050301;
  const __m256i signs = _mm256_set_epi64x(-0x7f7f7f7f7f7f7f80, 0, -0x7f7f7f7f7f7f7f80, 0);
  return {_mm256_shuffle_epi8(words, _mm256_set1_epi64x(kLow)),
          _mm256_xor_si256(_mm256_shuffle_epi8(words, _mm256_set1_epi64x(kHigh)), signs)};
}

/// Codes of two lanes as bytes. Of each lane, each half has half of the codes.
RESHARDFS_AVX2 inline __m256i bytes_of_two(const std::uint16_t* codes) noexcept {
  const auto* const lanes = reinterpret_cast<const __m256i*>(codes);
  return _mm256_packus_epi16(_mm256_loadu_si256(lanes), _mm256_loadu_si256(lanes + 1));
}

RESHARDFS_AVX2 inline TwoLanes words_of(__m256i low, __m256i high) noexcept {
  return {_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)};
}

RESHARDFS_AVX2 inline TwoLanes looked_up(const Table& table, __m256i codes) noexcept {
  return words_of(_mm256_shuffle_epi8(table.low, codes), _mm256_shuffle_epi8(table.high, codes));
}

constexpr float kSmallestE4m3 = 0x1p-9F;
/// Of scales: products have an exponent that can be added to.
constexpr float kLeastScale = 0x1p-100F;

/// The first 16 codes are multiples of the smallest. The others have the fraction of one of those
/// and a larger exponent, which is added to that of the product.
RESHARDFS_AVX2 inline TwoLanes looked_up_e4m3(const Table& table, __m256i codes) noexcept {
  const __m256i size = _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
  const __m256i is_normal = _mm256_cmpgt_epi8(size, _mm256_set1_epi8(7));
  const __m256i first = _mm256_or_si256(_mm256_and_si256(size, _mm256_set1_epi8(7)),
                                        _mm256_and_si256(is_normal, _mm256_set1_epi8(8)));
  const __m256i exponent = _mm256_add_epi8(
      _mm256_and_si256(_mm256_srli_epi16(size, 3), _mm256_set1_epi8(15)), is_normal);
  const __m256i sign = _mm256_xor_si256(codes, size);
  const TwoLanes made = words_of(_mm256_shuffle_epi8(table.low, first),
                                 _mm256_xor_si256(_mm256_shuffle_epi8(table.high, first), sign));
  // An exponent has its last bit in the lower byte.
  const TwoLanes more =
      words_of(_mm256_and_si256(_mm256_slli_epi16(exponent, 7), _mm256_set1_epi8(-0x80)),
               _mm256_and_si256(_mm256_srli_epi16(exponent, 1), _mm256_set1_epi8(7)));
  const __m256i nan = _mm256_cmpeq_epi8(size, _mm256_set1_epi8(0x7f));
  const TwoLanes nans = words_of(nan, nan);
  const __m256i of_nan = _mm256_set1_epi16(0x7fc0);
  return {_mm256_blendv_epi8(_mm256_add_epi16(made.first, more.first), of_nan, nans.first),
          _mm256_blendv_epi8(_mm256_add_epi16(made.second, more.second), of_nan, nans.second)};
}

RESHARDFS_AVX2 inline void store_two(const TwoLanes& lanes, std::byte* out) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), lanes.first);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + 1, lanes.second);
}

/// Half-precision floats of the processor have all values of small floats, if the exponent is taken
/// as it is: they are too small by a power of two, which goes to the scale. It must have room.
/// Where many codes share a scale, tables have less work.
struct Avx2Decoder {
  template <typename Kind, bool kEach>
  [[gnu::target("avx2,f16c")]] static void decode(const CodeLanes& lanes, std::byte* out) noexcept {
    constexpr bool kHasTable =
        std::is_same_v<Kind, E4M3> || std::is_same_v<Kind, E2M1> || std::is_same_v<Kind, ShortCode>;
    if constexpr (kHasTable && !kEach) return decode_by_table<Kind>(lanes, out);
    std::size_t scale = 0;
    for (std::size_t lane = 0; lane < lanes.count;) {
      for (std::size_t end = lane + (kEach ? 1 : lanes.of_scale); lane < end; ++lane) {
        decode_lane<Kind, kEach>(lanes.codes + lane * kLane, lanes.scales + scale,
                                 lanes.offsets + scale, out + lane * 2 * kLane);
      }
      scale += kEach ? kLane : 1;
    }
  }

  template <typename Kind>
  RESHARDFS_AVX2 static void decode_by_table(const CodeLanes& lanes, std::byte* out) noexcept {
    std::size_t lane = 0;
    const float* scale = lanes.scales;
    const int* offset = lanes.offsets;
    const auto codes = [&]() __attribute__((target("avx2,f16c"), always_inline)) {
      return bytes_of_two(lanes.codes + lane * kLane);
    };
    const auto store = [&](const TwoLanes& made)
        __attribute__((target("avx2,f16c"), always_inline)) {
      store_two(made, out + lane * 2 * kLane);
      lane += 2;
    };
    while (lane < lanes.count) {
      if constexpr (std::is_same_v<Kind, E2M1>) {
        if (lanes.of_scale == 1 && lane + 2 <= lanes.count && is_small(scale[0]) &&
            is_small(scale[1])) {
          // A lane in each half.
          const __m256i apart = _mm256_permute4x64_epi64(codes(), 0b11011000);
          const auto [first, second] = looked_up(table_of_e2m1(scale[0], scale[1]), apart);
          store({_mm256_permute2x128_si256(first, second, 0x20),
                 _mm256_permute2x128_si256(first, second, 0x31)});
          scale += 2;
          offset += 2;
          continue;
        }
      }
      const std::size_t end = lane + lanes.of_scale;
      // With fewer lanes, a table is not worth its making.
      constexpr std::size_t kLeastLanes = std::is_same_v<Kind, E4M3> ? 4 : 2;
      if (lanes.of_scale >= kLeastLanes && is_small(*scale)) {
        if constexpr (std::is_same_v<Kind, E2M1>) {
          const Table table = table_of_e2m1(*scale, *scale);
          while (lane + 2 <= end) store(looked_up(table, codes()));
        } else if constexpr (std::is_same_v<Kind, ShortCode>) {
          const Table table = table_of_multiples(*scale, *offset);
          while (lane + 2 <= end) store(looked_up(table, codes()));
        } else if (std::abs(*scale) > kLeastScale) {
          const Table table = table_of_multiples(*scale * kSmallestE4m3, 0);
          while (lane + 2 <= end) store(looked_up_e4m3(table, codes()));
        }
      }
      for (; lane < end; ++lane) {
        decode_lane<Kind, false>(lanes.codes + lane * kLane, scale, offset, out + lane * 2 * kLane);
      }
      ++scale;
      ++offset;
    }
  }

  template <typename Kind, bool kEach>
  RESHARDFS_AVX2 static void decode_lane(const std::uint16_t* codes, const float* scales,
                                         const int* offsets, std::byte* out) noexcept {
    const __m256 low_scale = scales_at<kEach>(scales, 0);
    const __m256 high_scale = kEach ? scales_at<kEach>(scales, 8) : low_scale;
    // Neither NaN nor very large.
    const __m256 most = _mm256_set1_ps(0x1p100F);
    const __m256 sign = _mm256_set1_ps(-0.0F);
    const __m256 ordinary =
        _mm256_and_ps(_mm256_cmp_ps(_mm256_andnot_ps(sign, low_scale), most, _CMP_LT_OQ),
                      _mm256_cmp_ps(_mm256_andnot_ps(sign, high_scale), most, _CMP_LT_OQ));
    constexpr int kAll = 0xff;
    if (_mm256_movemask_ps(ordinary) != kAll) [[unlikely]] {
      return PlainDecoder::decode_lane<Kind, kEach>(codes, scales, offsets, out);
    }
    const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m128i low = _mm256_castsi256_si128(stored);
    const __m128i high = _mm256_extracti128_si256(stored, 1);
    __m256 low_values;
    __m256 high_values;
    if constexpr (requires { Kind::kTurned; }) {
      const __m256i turned = _mm256_set1_epi32(Kind::kTurned);
      const auto value = [&](__m128i codes_of, __m256i offset)
          __attribute__((target("avx2,f16c"), always_inline)) {
        const __m256i wide = _mm256_xor_si256(_mm256_cvtepu16_epi32(codes_of), turned);
        return _mm256_cvtepi32_ps(_mm256_sub_epi32(wide, _mm256_add_epi32(turned, offset)));
      };
      low_values = _mm256_mul_ps(value(low, offsets_at<kEach>(offsets, 0)), low_scale);
      high_values = _mm256_mul_ps(value(high, offsets_at<kEach>(offsets, 8)), high_scale);
    } else {
      constexpr int kSignUp = 16 - static_cast<int>(Kind::kBits);
      constexpr int kSizeUp = 10 - static_cast<int>(Kind::kFraction);
      const __m256i sizes = _mm256_and_si256(stored, _mm256_set1_epi16(Kind::kSize));
      const __m256i halves =
          _mm256_or_si256(_mm256_slli_epi16(_mm256_andnot_si256(sizes, stored), kSignUp),
                          _mm256_slli_epi16(sizes, kSizeUp));
      const __m256 power = _mm256_set1_ps(static_cast<float>(1U << (15 - Kind::kBias)));
      low_values = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
                                 _mm256_mul_ps(low_scale, power));
      high_values = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)),
                                  _mm256_mul_ps(high_scale, power));
    }
    __m256i made = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(rounded(low_values), rounded(high_values)), 0b11011000);
    if constexpr (requires { Kind::kHasNan; }) {
      if constexpr (Kind::kHasNan) {
        const __m256i size = _mm256_set1_epi16(Kind::kSize);
        const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(stored, size), size);
        made = _mm256_blendv_epi8(made, _mm256_set1_epi16(0x7fc0), nan);
      }
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), made);
  }
};

constexpr std::size_t kTwoLanes = 2 * kLane;

/// The codes in one half of 32 bytes, in the order in which words are made of them: the bytes of
/// quarters 0 and 2 become words in one half of a vector, 1 and 3 in the other.
template <bool kUpper>
RESHARDFS_AVX2 inline __m256i codes_of_halves(const std::byte* bytes) noexcept {
  const __m256i read = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  const __m256i apart = _mm256_permute4x64_epi64(read, 0b11011000);
  return _mm256_and_si256(kUpper ? _mm256_srli_epi16(apart, 4) : apart, _mm256_set1_epi8(0xf));
}

template <bool kUpper>
RESHARDFS_AVX2 inline void add_powers_to_32(const Table& values_of, const std::byte* bytes,
                                            const std::uint16_t* powers, std::byte* out) noexcept {
  const __m256i codes = codes_of_halves<kUpper>(bytes);
  const __m256i some =
      _mm256_cmpgt_epi8(_mm256_and_si256(codes, _mm256_set1_epi8(7)), _mm256_setzero_si256());
  const TwoLanes values = looked_up(values_of, codes);
  const TwoLanes has_power = words_of(some, some);
  const auto* const more = reinterpret_cast<const __m256i*>(powers);
  store_two(
      {_mm256_add_epi16(values.first, _mm256_and_si256(has_power.first, _mm256_loadu_si256(more))),
       _mm256_add_epi16(values.second,
                        _mm256_and_si256(has_power.second, _mm256_loadu_si256(more + 1)))},
      out);
}

template <bool kUpper>
RESHARDFS_AVX2 inline void decode_half(std::span<const std::byte> bytes,
                                       const std::uint16_t* powers, std::byte* out) noexcept {
  const Table values_of = table_of_e2m1(1, 1);
  std::size_t at = 0;
  for (; at + kTwoLanes <= bytes.size(); at += kTwoLanes) {
    add_powers_to_32<kUpper>(values_of, bytes.data() + at, powers + at, out + 2 * at);
  }
  decode_powers_plain(bytes.subspan(at), kUpper, powers + at, out + 2 * at);
}

/// Integers that share a scale and an offset.
template <bool kUpper>
RESHARDFS_AVX2 inline void decode_run(std::span<const std::byte> bytes, const float& scale,
                                      const int& offset, std::byte* out) noexcept {
  std::size_t at = 0;
  if (is_small(scale)) {
    const Table table = table_of_multiples(scale, offset);
    for (; at + kTwoLanes <= bytes.size(); at += kTwoLanes) {
      store_two(looked_up(table, codes_of_halves<kUpper>(bytes.data() + at)), out + 2 * at);
    }
  }
  std::array<std::uint16_t, kTwoLanes> codes;
  for (; at < bytes.size(); at += kTwoLanes) {
    const auto some = std::span(codes).first(std::min(kTwoLanes, bytes.size() - at));
    decoders().back().unpack_halves(bytes.subspan(at, some.size()), kUpper, some.data());
    ScaledCodes rest{.codes = some, .first_run = some.size(), .run = some.size()};
    rest.scales = &scale;
    rest.offsets = &offset;
    rest.bits = 4;
    decode_with<Avx2Decoder>(CodeKind::kUnsigned, rest, out + 2 * at);
  }
}

template <bool kUpper>
RESHARDFS_AVX2 inline void decode_runs(std::span<const std::byte> bytes, const ScaledCodes& scaled,
                                       std::byte* out) noexcept {
  const float* scale = scaled.scales;
  const int* offset = scaled.offsets;
  for (std::size_t left = scaled.first_run; !bytes.empty(); left = scaled.run) {
    const std::size_t count = std::min(left, bytes.size());
    decode_run<kUpper>(bytes.first(count), *scale++, *offset++, out);
    bytes = bytes.subspan(count);
    out += 2 * count;
  }
}

}  // namespace

[[gnu::target("avx2,f16c")]] void decode_powers_with_avx2(std::span<const std::byte> bytes,
                                                          bool upper, const std::uint16_t* powers,
                                                          std::byte* out) noexcept {
  return upper ? decode_half<true>(bytes, powers, out) : decode_half<false>(bytes, powers, out);
}

[[gnu::target("avx2,f16c")]] void decode_halves_with_avx2(std::span<const std::byte> bytes,
                                                          bool upper, const ScaledCodes& scaled,
                                                          std::byte* out) noexcept {
  return upper ? decode_runs<true>(bytes, scaled, out) : decode_runs<false>(bytes, scaled, out);
}

void decode_with_avx2(CodeKind kind, const ScaledCodes& from, std::byte* out) noexcept {
  decode_with<Avx2Decoder>(kind, from, out);
}

}  // namespace reshardfs

#endif
