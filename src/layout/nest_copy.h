// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "layout/nest.h"

namespace reshardfs {

/// Copies the elements of a nest from memory: runs where elements follow one another on both sides,
/// or else planes, in blocks whose cache lines stay near on both sides.
/// @param from where element 0 of Nest::from is, @param to where that of Nest::to is.
/// @param element bytes: 1, 2, 4, 8 or 16.
void copy_elements(const std::byte* from, std::byte* to, const Nest& nest, std::size_t element);

}  // namespace reshardfs
