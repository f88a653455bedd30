// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/dequantized_content.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <limits>
#include <tuple>
#include <utility>

#include "base/cast.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kElementsAtOnce = 128ULL << 10U;
constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

/// A number that compilers know makes vectors of the loop.
constexpr std::size_t kLane = 64;

/// Weights of one sign, four bits of exponent with a bias of 7 and three of fraction, where all
/// ones is NaN, times a scale.
/// @param weights kLane of them. @param out twice as many bytes.
void scale_lane(const std::byte* weights, float scale, std::byte* out) noexcept {
  constexpr std::uint32_t kSize = 0x7f;
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint16_t kNan = 0x7fc0;
  // The fields take their places in a float32, whose bias is higher by 120. The product is exact,
  // also for what is subnormal on the left.
  constexpr float kBias = 0x1p120F;
  std::array<std::uint16_t, kLane> made;
  for (std::size_t i = 0; i < kLane; ++i) {
    const auto bits = std::to_integer<std::uint32_t>(weights[i]);
    const std::uint32_t size = bits & kSize;
    const auto exact = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size << 20U) * kBias);
    const float weight = std::bit_cast<float>(exact | (bits & 0x80U) << 24U);
    const auto product = std::bit_cast<std::uint32_t>(weight * scale);
    const std::uint32_t rounded = (product + 0x7fffU + (product >> 16U & 1U)) >> 16U;
    // Which NaN a product of a NaN is, depends on the processor; this is the one that PyTorch
    // rounds to.
    const std::uint32_t is_nan = static_cast<std::uint32_t>(size == kSize) |
                                 static_cast<std::uint32_t>((product & ~(1U << 31U)) > kInfinity);
    made[i] = static_cast<std::uint16_t>(is_nan != 0 ? kNan : rounded);
  }
  std::memcpy(out, made.data(), sizeof made);
}

/// A power of two with a bias of 127; 255 is NaN.
float from_e8m0(std::byte stored) noexcept {
  constexpr std::uint32_t kNan = 0x7fc00000;
  constexpr std::uint32_t kHalfOfTheSmallest = 0x00400000;  // 2^-127
  const auto bits = std::to_integer<std::uint32_t>(stored);
  if (bits == 0xff) return std::bit_cast<float>(kNan);
  return std::bit_cast<float>(bits == 0 ? kHalfOfTheSmallest : bits << 23U);
}

}  // namespace

/// One row of scales as float32, and where it comes from.
struct DequantizedContent::Scales {
  std::uint64_t row = kNone;
  std::vector<std::byte> stored{};
  std::vector<float> values{};
};

DequantizedContent::DequantizedContent(StoredTensor weight, StoredTensor scale, BlockShape block,
                                       bool beside)
    : weight_(std::move(weight)), scale_(std::move(scale)), block_(block), beside_(beside) {
  const auto last_two = [](const Shape& shape) {
    return std::pair(static_cast<std::uint64_t>(shape[shape.size() - 2]),
                     static_cast<std::uint64_t>(shape.back()));
  };
  std::tie(rows_, columns_) = last_two(weight_.shape);
  std::tie(scale_rows_, scale_columns_) = last_two(scale_.shape);
}

std::uint64_t DequantizedContent::scale_row(std::uint64_t row) const {
  return row / rows_ * scale_rows_ + row % rows_ / static_cast<std::uint64_t>(block_.rows);
}

void DequantizedContent::convert(std::uint64_t row, std::uint64_t begin, std::uint64_t end,
                                 const std::byte* weights, Scales& scales, std::byte* out) const {
  const std::uint64_t wanted = scale_row(row);
  if (scales.row != wanted) {
    const std::uint64_t bytes =
        scale_columns_ * static_cast<std::uint64_t>(element_size(scale_.dtype));
    scales.stored.resize(bytes);
    scales.values.resize(scale_columns_);
    scale_.source->read_at(scale_.place.offset() + wanted * bytes, scales.stored);
    if (scale_.dtype == DType::kFloat8E8M0) {
      std::transform(scales.stored.begin(), scales.stored.end(), scales.values.begin(), from_e8m0);
    } else {
      cast_elements(scale_.dtype, scales.stored.data(), DType::kFloat32,
                    reinterpret_cast<std::byte*>(scales.values.data()), scales.values.size());
    }
    scales.row = wanted;
  }
  const auto block = static_cast<std::uint64_t>(block_.columns);
  std::array<std::byte, kLane> some;
  std::array<std::byte, 2 * kLane> made;
  while (begin < end) {
    const std::uint64_t stop = std::min({end, (begin / block + 1) * block, begin + kLane});
    const float scale = scales.values[begin / block];
    const auto count = static_cast<std::size_t>(stop - begin);
    if (count == kLane) {
      scale_lane(weights, scale, out);
    } else {
      some.fill(std::byte());
      std::memcpy(some.data(), weights, count);
      scale_lane(some.data(), scale, made.data());
      std::memcpy(out, made.data(), 2 * count);
    }
    weights += count;
    out += 2 * count;
    begin = stop;
  }
}

void DequantizedContent::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  std::vector<std::byte> weights;
  std::vector<std::byte> edge;  // where an element is not wanted as a whole
  Scales scales;
  std::uint64_t element = offset / 2;
  std::uint64_t skipped = offset % 2;
  while (!out.empty()) {
    const std::uint64_t wanted = (out.size() + skipped + 1) / 2;
    const std::uint64_t count = std::min(wanted, kElementsAtOnce);
    weights.resize(count);
    weight_.source->read_at(weight_.place.offset() + element, weights);
    const std::size_t made = 2 * count;
    const bool fits = skipped == 0 && out.size() >= made;
    if (!fits) edge.resize(made);
    std::byte* to = fits ? out.data() : edge.data();
    for (std::uint64_t done = 0; done < count;) {
      const std::uint64_t row = (element + done) / columns_;
      const std::uint64_t begin = (element + done) % columns_;
      const std::uint64_t end = std::min(columns_, begin + count - done);
      convert(row, begin, end, weights.data() + done, scales, to + 2 * done);
      done += end - begin;
    }
    const std::size_t taken = std::min<std::size_t>(out.size(), made - skipped);
    if (!fits) std::memcpy(out.data(), edge.data() + skipped, taken);
    out = out.subspan(taken);
    element += count;
    skipped = 0;
  }
  if (beside_) scale_.source->check_unchanged();
}

void DequantizedContent::foresee(const ByteRange& range, Foresight when) const noexcept {
  if (range.empty()) return;
  try {
    const std::uint64_t begin = range.offset() / 2;
    const std::uint64_t end = (range.end() + 1) / 2;
    const std::array weights{
        ByteRange::between(weight_.place.offset() + begin, weight_.place.offset() + end)};
    weight_.source->foresee(weights, when);
    const std::uint64_t bytes =
        scale_columns_ * static_cast<std::uint64_t>(element_size(scale_.dtype));
    const std::array scales{
        ByteRange::between(scale_.place.offset() + scale_row(begin / columns_) * bytes,
                           scale_.place.offset() + (scale_row((end - 1) / columns_) + 1) * bytes)};
    scale_.source->foresee(scales, when);
  } catch (const std::exception&) {
    // A read of the range reports the error.
  }
}

}  // namespace reshardfs
