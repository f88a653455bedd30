// SPDX-License-Identifier: Apache-2.0
/// The part of DLPack's interface (version 0.8) that hands an array in memory to another library.
#pragma once

#include <pybind11/pybind11.h>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "core/memory.h"

namespace reshardfs::python {

/// A capsule as __dlpack__() returns it. Whoever takes it shares the memory.
/// @throws pybind11::buffer_error if DLPack has no such elements.
pybind11::capsule dlpack_capsule(const MemoryPtr& memory, DType dtype, const Shape& shape);

}  // namespace reshardfs::python
