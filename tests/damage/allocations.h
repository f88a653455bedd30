// SPDX-License-Identifier: Apache-2.0
/// How much the code that is tested asks of the memory allocator.
#pragma once

#include <cstddef>

namespace reshardfs::damage {

/// Bytes that operator new has given out in this thread since the last call, freed or not: more
/// than were ever held at once.
std::size_t take_allocated_bytes() noexcept;

}  // namespace reshardfs::damage
