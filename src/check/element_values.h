// SPDX-License-Identifier: Apache-2.0
/// Elements of any type as numbers.
#pragma once

#include <cfloat>
#include <cstddef>
#include <string>

#include "reshardfs/dtype.h"

namespace reshardfs {

/// Has every value of every element type, 64-bit integers and doubles alike.
using WideReal = long double;
static_assert(LDBL_MANT_DIG >= 64, "long double must hold 64-bit integers");

/// Whether elements are numbers that can be ordered and added. False for complex and packed types,
/// which are compared only by their bytes, and for types that are not arrays.
bool has_numbers(DType dtype) noexcept;

/// Whether all values of the type are doubles (NaN and infinity, if it has them, included).
bool is_floating(DType dtype) noexcept;

/// Exact; O(count), no allocation. `in` need not be aligned.
/// @pre is_floating(dtype)
void widen(DType dtype, const std::byte* in, std::size_t count, double* out) noexcept;
/// The same for every type; of what is no array the bytes count.
/// @pre has_numbers(dtype), or it is no array
void widen(DType dtype, const std::byte* in, std::size_t count, WideReal* out) noexcept;

/// One element, with as many digits as tell it from its neighbours. Where it is no number, its
/// unit's bytes in hexadecimal.
std::string element_text(DType dtype, const std::byte* element);

}  // namespace reshardfs
