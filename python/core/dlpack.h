// SPDX-License-Identifier: Apache-2.0
/// The part of DLPack's interface (versions 0.8 and 1.0) that hands an array in memory to another
/// library.
#pragma once

#include <pybind11/pybind11.h>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "core/memory.h"

namespace reshardfs::python {

/// @throws pybind11::buffer_error if DLPack has no such elements.
void require_dlpack_type(DType dtype);

/// A capsule as __dlpack__() returns it. Whoever takes it shares the memory.
/// @param versioned as of version 1.0, with flags that say that the memory is a copy, which may be
///        written to; if not, as before.
/// @throws pybind11::buffer_error as require_dlpack_type().
pybind11::capsule dlpack_capsule(const MemoryPtr& memory, DType dtype, const Shape& shape,
                                 bool versioned);

}  // namespace reshardfs::python
