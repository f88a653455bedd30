// SPDX-License-Identifier: Apache-2.0
#include "check/element_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "check/element_values.h"

namespace reshardfs {
namespace {

constexpr std::size_t kTileElements = 1024;
/// Bytes that are skipped together where both sides have the same.
constexpr std::size_t kEqualBytes = 4096;

void raise(std::optional<double>& largest, double value) {
  if (!largest || value > *largest) largest = value;
}

template <typename Real>
bool is_nan_on_any_side(Real a, Real b) noexcept {
  return std::isnan(a) || std::isnan(b);
}

/// Vector code: most tiles are equal.
template <typename Real>
bool all_equal(const Real* a, const Real* b, std::size_t count) noexcept {
  bool equal = true;
  for (std::size_t i = 0; i < count; ++i) equal &= a[i] == b[i];
  return equal;
}

/// A pair that is not equal. @return whether it counts as different.
template <typename Real>
bool tally_unequal(Real a, Real b, const Tolerance& tolerance, ElementTally& tally) {
  ++tally.unequal;
  if (is_nan_on_any_side(a, b)) {
    ++tally.nans;
    return true;
  }
  const Real distance = std::abs(a - b);
  const Real size = std::abs(b);
  raise(tally.max_absolute, static_cast<double>(distance));
  if (size > 0 && std::isfinite(size)) {
    raise(tally.max_relative, static_cast<double>(distance / size));
  }
  const bool finite = std::isfinite(a) && std::isfinite(b);
  return !finite || distance > static_cast<Real>(tolerance.absolute) +
                                   static_cast<Real>(tolerance.relative) * size;
}

template <typename Real>
void compare_tile(const ElementRange& a, const ElementRange& b, std::size_t count,
                  std::uint64_t first_index, const Tolerance& tolerance, ElementTally& tally) {
  std::array<Real, kTileElements> left;
  std::array<Real, kTileElements> right;
  widen(a.dtype, a.bytes, count, left.data());
  widen(b.dtype, b.bytes, count, right.data());
  if (all_equal(left.data(), right.data(), count)) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (left[i] == right[i]) continue;
    const bool both_nan = std::isnan(left[i]) && std::isnan(right[i]);
    if (both_nan && tolerance.nan_equals_nan) continue;
    if (!tally_unequal(left[i], right[i], tolerance, tally)) continue;
    ++tally.different;
    if (tally.first) continue;
    const auto position = [i](const ElementRange& range) {
      return range.bytes + i * static_cast<std::size_t>(element_size(range.dtype));
    };
    tally.first = first_index + i;
    tally.first_a = element_text(a.dtype, position(a));
    tally.first_b = element_text(b.dtype, position(b));
  }
}

/// Of a type that has no numbers: elements that share a differing byte all count.
void compare_bytes(const ElementRange& a, const ElementRange& b, std::size_t units,
                   std::uint64_t first_index, ElementTally& tally) {
  const auto size = static_cast<std::size_t>(element_size(a.dtype));
  const auto per_unit = static_cast<std::uint64_t>(elements_per_unit(a.dtype));
  for (std::size_t i = 0; i < units; ++i) {
    if (std::memcmp(a.bytes + i * size, b.bytes + i * size, size) == 0) continue;
    tally.unequal += per_unit;
    tally.different += per_unit;
    if (tally.first) continue;
    tally.first = (first_index + i) * per_unit;
    tally.first_a = element_text(a.dtype, a.bytes + i * size);
    tally.first_b = element_text(b.dtype, b.bytes + i * size);
  }
}

}  // namespace

bool can_compare(DType a, DType b) noexcept {
  return a == b || (has_numbers(a) && has_numbers(b));
}

void compare_elements(const ElementRange& a, const ElementRange& b, std::size_t count,
                      std::uint64_t first_index, const Tolerance& tolerance, ElementTally& tally) {
  const auto a_size = static_cast<std::size_t>(element_size(a.dtype));
  const auto b_size = static_cast<std::size_t>(element_size(b.dtype));
  const bool floating = is_floating(a.dtype) && is_floating(b.dtype);
  // Equal bytes are equal values, unless NaN must differ from itself.
  const bool skip_equal_bytes = a.dtype == b.dtype && (tolerance.nan_equals_nan || !floating);
  const bool by_bytes = is_array(a.dtype) && !has_numbers(a.dtype);
  tally.elements += count * static_cast<std::uint64_t>(elements_per_unit(a.dtype));
  if (skip_equal_bytes && std::memcmp(a.bytes, b.bytes, count * a_size) == 0) return;
  const std::size_t step =
      skip_equal_bytes ? std::min(kTileElements, kEqualBytes / a_size) : kTileElements;
  for (std::size_t done = 0; done < count; done += step) {
    const std::size_t part = std::min(step, count - done);
    const ElementRange left{a.dtype, a.bytes + done * a_size};
    const ElementRange right{b.dtype, b.bytes + done * b_size};
    if (skip_equal_bytes && std::memcmp(left.bytes, right.bytes, part * a_size) == 0) continue;
    if (by_bytes) {
      compare_bytes(left, right, part, first_index + done, tally);
    } else if (floating) {
      compare_tile<double>(left, right, part, first_index + done, tolerance, tally);
    } else {
      compare_tile<WideReal>(left, right, part, first_index + done, tolerance, tally);
    }
  }
}

}  // namespace reshardfs
