// SPDX-License-Identifier: Apache-2.0
/// Comparing elements by value, across element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "reshardfs/dtype.h"

namespace reshardfs {

/// When two elements count as equal: a == b, or both are NaN, or both are finite and
/// |a - b| <= absolute + relative * |b|, as numpy.allclose has it.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
  bool nan_equals_nan = true;
};

/// What was found in all elements compared so far.
struct ElementTally {
  std::uint64_t elements = 0;
  /// Not equal by value; 0.0 and -0.0 are equal.
  std::uint64_t unequal = 0;
  /// Of these, what the tolerance does not cover: what counts as different.
  std::uint64_t different = 0;
  /// Of these, those where NaN is on one side (or on both, if NaN is not to equal NaN).
  std::uint64_t nans = 0;
  /// Largest |a - b| of the unequal elements without NaN.
  std::optional<double> max_absolute{};
  /// Largest |a - b| / |b| of those with finite b other than 0.
  std::optional<double> max_relative{};
  /// Flat index of the first different element, and both values.
  std::optional<std::uint64_t> first{};
  std::string first_a{};
  std::string first_b{};
};

struct ElementRange {
  DType dtype = DType::kFloat32;
  const std::byte* bytes = nullptr;  ///< need not be aligned
};

/// Whether elements of one type can be compared with those of another: by value, or where they have
/// no numbers (has_numbers()) by their bytes.
bool can_compare(DType a, DType b) noexcept;

/// Compares `count` elements, in types that hold all values of both. O(count); uses 64 KiB of
/// stack. Packed types are compared by units, types that are not arrays by bytes.
/// @param count, first_index of elements, or of units: the number, and the flat index of the first.
/// @pre can_compare()
void compare_elements(const ElementRange& a, const ElementRange& b, std::size_t count,
                      std::uint64_t first_index, const Tolerance& tolerance, ElementTally& tally);

}  // namespace reshardfs
