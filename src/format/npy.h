// SPDX-License-Identifier: Apache-2.0
/// NumPy's .npy format, writing.
#pragma once

#include <string>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

namespace reshardfs::npy {

/// The bytes before an array's elements (C order, little endian): the same as NumPy's own, a
/// multiple of 64. Version 1.0; 2.0 if the shape's text does not fit it.
/// @throws Error kInternal if the type is not an array.
std::string header(DType dtype, const Shape& shape);

}  // namespace reshardfs::npy
