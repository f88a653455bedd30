// SPDX-License-Identifier: Apache-2.0
#include "check/element_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/cast.h"

namespace reshardfs {
namespace {

/// Elements that are looked at twice, and so have to stay in the first cache.
constexpr std::size_t kTile = 2048;
/// Sums that are kept side by side: the compiler makes vector code of them, and rounding errors
/// grow with an eighth of the elements.
constexpr std::size_t kLanes = 8;

/// Of finite elements, at least one.
template <typename Value, typename Sum>
struct Moments {
  Value min{};
  Value max{};
  std::uint64_t zeros = 0;
  Sum mean = 0;
  Sum squares = 0;
};

template <typename Value, typename Sum>
struct Lanes {
  std::array<Value, kLanes> min{};
  std::array<Value, kLanes> max{};
  std::array<Sum, kLanes> sum{};
  std::array<std::uint32_t, kLanes> zeros{};
};

/// Loops over lanes without calls and branches, or no vector code comes of them.
template <typename Value, typename Sum>
[[gnu::always_inline]] inline void add_row(const Value* row, Value* min, Value* max, Sum* sum,
                                           std::uint32_t* zeros) noexcept {
  for (std::size_t l = 0; l < kLanes; ++l) sum[l] += static_cast<Sum>(row[l]);
  for (std::size_t l = 0; l < kLanes; ++l) min[l] = row[l] < min[l] ? row[l] : min[l];
  for (std::size_t l = 0; l < kLanes; ++l) max[l] = max[l] < row[l] ? row[l] : max[l];
  for (std::size_t l = 0; l < kLanes; ++l) zeros[l] += row[l] == Value{0} ? 1U : 0U;
}

template <typename Sum, std::size_t kCount>
Sum total(const std::array<Sum, kCount>& lanes) noexcept {
  Sum sum = 0;
  for (const Sum lane : lanes) sum += lane;
  return sum;
}

/// The distances from the mean, which is put right by what they add up to.
template <typename Value, typename Sum>
[[gnu::always_inline]] inline void measure(const Value* values, std::size_t count,
                                           Moments<Value, Sum>& moments) noexcept {
  // Sums of narrower values are exact, or nearly so.
  constexpr bool kCorrect = sizeof(Value) > 4;
  std::array<Sum, kLanes> square_lanes{};
  std::array<Sum, kLanes> error_lanes{};
  Sum* squares = square_lanes.data();
  Sum* errors = error_lanes.data();
  const Sum mean = moments.mean;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) {
      const Sum distance = static_cast<Sum>(values[i + l]) - mean;
      squares[l] += distance * distance;
      if constexpr (kCorrect) errors[l] += distance;
    }
  }
  for (; i < count; ++i) {
    const Sum distance = static_cast<Sum>(values[i]) - mean;
    squares[0] += distance * distance;
    errors[0] += kCorrect ? distance : 0;
  }
  const Sum error = total(error_lanes) / static_cast<Sum>(count);
  moments.mean += error;
  const Sum sum = total(square_lanes) - error * error * static_cast<Sum>(count);
  // A sum that has overflowed stays NaN.
  moments.squares = sum < 0 ? 0 : sum;
}

template <typename Value, typename Sum>
[[gnu::always_inline]] inline Moments<Value, Sum> add_up(const Value* values,
                                                         std::size_t count) noexcept {
  Lanes<Value, Sum> lanes;
  lanes.min.fill(values[0]);
  lanes.max.fill(values[0]);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    add_row(values + i, lanes.min.data(), lanes.max.data(), lanes.sum.data(), lanes.zeros.data());
  }
  Moments<Value, Sum> moments;
  moments.min = *std::min_element(lanes.min.begin(), lanes.min.end());
  moments.max = *std::max_element(lanes.max.begin(), lanes.max.end());
  moments.zeros = total(lanes.zeros);
  Sum sum = total(lanes.sum);
  for (; i < count; ++i) {
    moments.min = std::min(moments.min, values[i]);
    moments.max = std::max(moments.max, values[i]);
    moments.zeros += values[i] == Value{0} ? 1U : 0U;
    sum += static_cast<Sum>(values[i]);
  }
  moments.mean = sum / static_cast<Sum>(count);
  measure(values, count, moments);
  return moments;
}

#if defined(__x86_64__)
/// The same instructions twice as wide; no others, so that the sums are the same.
template <typename Value, typename Sum>
[[gnu::target("avx2")]] Moments<Value, Sum> add_up_wide(const Value* values,
                                                        std::size_t count) noexcept {
  return add_up<Value, Sum>(values, count);
}
#endif

/// If an element is NaN or infinite, the mean is not finite; the rest is undefined then.
template <typename Value, typename Sum>
Moments<Value, Sum> moments_of(const Value* values, std::size_t count) noexcept {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return add_up_wide<Value, Sum>(values, count);
#endif
  return add_up<Value, Sum>(values, count);
}

template <typename Value, typename Sum>
ElementStats stats_from(const Moments<Value, Sum>& moments, std::size_t count) noexcept {
  ElementStats stats;
  stats.elements = count;
  stats.zeros = moments.zeros;
  // -0.0 + 0 is 0: which of the two comes first says nothing.
  stats.min = static_cast<WideReal>(moments.min) + 0;
  stats.max = static_cast<WideReal>(moments.max) + 0;
  stats.mean = static_cast<WideReal>(moments.mean);
  // Of a constant exactly: the mean was rounded when the distances were measured.
  const bool constant = moments.min == moments.max;
  stats.squares = constant ? 0 : static_cast<WideReal>(moments.squares);
  return stats;
}

/// For sums that exceed a double.
template <typename Value>
ElementStats wide_stats_of(const Value* values, std::size_t count) noexcept {
  std::array<WideReal, kTile> wide;
  std::copy_n(values, count, wide.data());
  return stats_from(moments_of<WideReal, WideReal>(wide.data(), count), count);
}

template <typename Value>
ElementStats finite_stats_of(const Value* values, std::size_t count) noexcept {
  const auto moments = moments_of<Value, double>(values, count);
  if (!std::isfinite(moments.mean) || !std::isfinite(moments.squares)) {
    return wide_stats_of(values, count);
  }
  return stats_from(moments, count);
}

/// With some that are not finite among them. Moves the others to the front.
template <typename Value>
ElementStats mixed_stats_of(Value* values, std::size_t count) noexcept {
  std::size_t kept = 0;
  std::uint64_t nans = 0;
  for (std::size_t i = 0; i < count; ++i) {
    nans += std::isnan(values[i]) ? 1U : 0U;
    if (std::isfinite(values[i])) values[kept++] = values[i];
  }
  ElementStats stats;
  if (kept > 0) stats = finite_stats_of(values, kept);
  stats.elements = count;
  stats.nans = nans;
  stats.infinities = count - kept - nans;
  return stats;
}

ElementStats tile_stats(float* values, std::size_t count) noexcept {
  const auto moments = moments_of<float, double>(values, count);
  return std::isfinite(moments.mean) ? stats_from(moments, count) : mixed_stats_of(values, count);
}

ElementStats tile_stats(double* values, std::size_t count) noexcept {
  const auto moments = moments_of<double, double>(values, count);
  const bool fits = std::isfinite(moments.mean) && std::isfinite(moments.squares);
  return fits ? stats_from(moments, count) : mixed_stats_of(values, count);
}

ElementStats tile_stats(const std::int32_t* values, std::size_t count) noexcept {
  return stats_from(moments_of<std::int32_t, double>(values, count), count);
}

ElementStats tile_stats(const WideReal* values, std::size_t count) noexcept {
  return stats_from(moments_of<WideReal, WideReal>(values, count), count);
}

/// As numbers of a type in which a tile is quickly summed up, and that has all of their values.
template <typename Element, typename Value>
void load(const std::byte* in, std::size_t count, Value* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    Element element{};
    std::memcpy(&element, in + i * sizeof element, sizeof element);
    out[i] = static_cast<Value>(element);
  }
}

/// BFloat16 is the upper half of Float32.
void load_upper_halves(const std::byte* in, std::size_t count, float* out) noexcept {
  const auto convert = [&](std::size_t first, auto kCount) {
    std::array<std::uint16_t, kCount> halves{};
    std::array<std::uint32_t, kCount> bits{};
    std::memcpy(halves.data(), in + first * sizeof(std::uint16_t), sizeof halves);
    for (std::size_t l = 0; l < kCount; ++l) bits[l] = std::uint32_t{halves[l]} << 16U;
    std::memcpy(out + first, bits.data(), sizeof bits);
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    convert(i, std::integral_constant<std::size_t, kLanes>());
  }
  for (; i < count; ++i) convert(i, std::integral_constant<std::size_t, 1>());
}

void load(DType dtype, const std::byte* in, std::size_t count, float* out) noexcept {
  if (dtype == DType::kBFloat16) return load_upper_halves(in, count, out);
  cast_elements(dtype, in, DType::kFloat32, reinterpret_cast<std::byte*>(out), count);
}

void load(DType dtype, const std::byte* in, std::size_t count, double* out) noexcept {
  if (dtype == DType::kUInt32) return load<std::uint32_t>(in, count, out);
  widen(dtype, in, count, out);
}

void load(DType dtype, const std::byte* in, std::size_t count, std::int32_t* out) noexcept {
  if (dtype == DType::kInt16) return load<std::int16_t>(in, count, out);
  if (dtype == DType::kUInt16) return load<std::uint16_t>(in, count, out);
  load<std::int32_t>(in, count, out);
}

void load(DType dtype, const std::byte* in, std::size_t count, WideReal* out) noexcept {
  widen(dtype, in, count, out);
}

template <typename Value>
ElementStats stats_in(DType dtype, const std::byte* in, std::size_t count) noexcept {
  const auto size = static_cast<std::size_t>(element_size(dtype));
  std::array<Value, kTile> tile;
  ElementStats stats;
  for (std::size_t done = 0; done < count; done += kTile) {
    const std::size_t part = std::min(kTile, count - done);
    load(dtype, in + done * size, part, tile.data());
    stats = merged(stats, tile_stats(tile.data(), part));
  }
  return stats;
}

/// How often each value of a byte occurs says it all.
ElementStats byte_stats(DType dtype, const std::byte* in, std::size_t count) noexcept {
  constexpr std::size_t kValues = 256;
  // Neighbours are often equal: they are counted apart, not to wait for each other.
  std::array<std::array<std::uint64_t, kValues>, 4> counts{};
  for (std::size_t i = 0; i < count; ++i) ++counts[i % 4][std::to_integer<std::size_t>(in[i])];
  std::array<std::byte, kValues> bytes{};
  for (std::size_t i = 0; i < kValues; ++i) bytes[i] = static_cast<std::byte>(i);
  std::array<WideReal, kValues> values{};
  widen(dtype, bytes.data(), kValues, values.data());
  ElementStats stats;
  for (std::size_t i = 0; i < kValues; ++i) {
    const std::uint64_t times = counts[0][i] + counts[1][i] + counts[2][i] + counts[3][i];
    if (times == 0) continue;
    ElementStats one;
    one.elements = times;
    if (std::isnan(values[i])) {
      one.nans = times;
    } else if (std::isinf(values[i])) {
      one.infinities = times;
    } else {
      one.zeros = values[i] == 0 ? times : 0;
      one.min = one.max = one.mean = values[i] + 0;
    }
    stats = merged(stats, one);
  }
  return stats;
}

}  // namespace

std::optional<WideReal> ElementStats::deviation() const noexcept {
  if (finite() == 0) return std::nullopt;
  return std::sqrt(squares / static_cast<WideReal>(finite()));
}

ElementStats stats_of(DType dtype, const std::byte* in, std::size_t count) noexcept {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      return stats_in<float>(dtype, in, count);
    case DType::kFloat64:
    case DType::kUInt32:
      return stats_in<double>(dtype, in, count);
    case DType::kInt64:
    case DType::kUInt64:
      return stats_in<WideReal>(dtype, in, count);
    case DType::kInt16:
    case DType::kUInt16:
    case DType::kInt32:
      return stats_in<std::int32_t>(dtype, in, count);
    default:
      return byte_stats(dtype, in, count);
  }
}

ElementStats merged(const ElementStats& a, const ElementStats& b) noexcept {
  ElementStats both = a.finite() == 0 ? b : a;
  both.elements = a.elements + b.elements;
  both.nans = a.nans + b.nans;
  both.infinities = a.infinities + b.infinities;
  both.zeros = a.zeros + b.zeros;
  if (a.finite() == 0 || b.finite() == 0) return both;
  both.min = std::min(a.min, b.min);
  both.max = std::max(a.max, b.max);
  const auto a_count = static_cast<WideReal>(a.finite());
  const auto b_count = static_cast<WideReal>(b.finite());
  const WideReal share = b_count / (a_count + b_count);
  const WideReal distance = b.mean - a.mean;
  both.mean = a.mean + distance * share;
  both.squares = a.squares + b.squares + distance * distance * a_count * share;
  return both;
}

void PairwiseStats::add(std::uint64_t number, ElementStats stats) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = blocks_;  // of nodes on this level
  unsigned level = 0;
  for (; count > 1; ++level, number /= 2, count -= count / 2) {
    const std::uint64_t partner = number ^ 1U;
    if (partner >= count) continue;  // the last, alone
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Node& node) {
      return node.level == level && node.number == partner;
    });
    if (found == waiting_.end()) break;
    stats = partner < number ? merged(found->stats, stats) : merged(stats, found->stats);
    *found = waiting_.back();
    waiting_.pop_back();
  }
  waiting_.push_back({level, number, stats});
}

ElementStats PairwiseStats::result() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() ? ElementStats{} : waiting_.front().stats;
}

}  // namespace reshardfs
