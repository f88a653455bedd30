// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/code_lanes.h"

#if defined(__x86_64__)

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

/// Half-precision floats of the processor have all values of small floats, if the exponent is taken
/// as it is: they are too small by a power of two, which goes to the scale. It must have room.
struct Avx2Decoder {
  template <typename Kind, bool kEach>
  [[gnu::target("avx2,f16c")]] static void decode(const CodeLanes& lanes, std::byte* out) noexcept {
    std::size_t scale = 0;
    for (std::size_t lane = 0; lane < lanes.count;) {
      for (std::size_t end = lane + (kEach ? 1 : lanes.of_scale); lane < end; ++lane) {
        decode_lane<Kind, kEach>(lanes.codes + lane * kLane, lanes.scales + scale,
                                 lanes.offsets + scale, out + lane * 2 * kLane);
      }
      scale += kEach ? kLane : 1;
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

}  // namespace

void decode_with_avx2(CodeKind kind, const ScaledCodes& from, std::byte* out) noexcept {
  decode_with<Avx2Decoder>(kind, from, out);
}

}  // namespace reshardfs

#endif
