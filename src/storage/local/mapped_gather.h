// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "storage/strided_ranges.h"

namespace reshardfs {

/// Copies ranges of a file out of a mapping, which exists only during the call, so that address
/// space and page tables do not grow with the bytes read.
///
/// A page that the file no longer has, or that storage cannot deliver, raises SIGBUS. The first
/// call installs a handler that then ends the copy, and passes every other SIGBUS to the previous
/// handler. In a file that has shrunk, the rest of the last page reads as zeros, so the caller must
/// check the file afterwards, as after any read.
///
/// @return false if the file cannot be mapped or a page cannot be read; `out` is then undefined.
bool gather_from_map(int fd, const StridedRanges& ranges, std::byte* out) noexcept;

/// The same out of memory that maps a file.
/// @param map the whole map. @param first the start of the first range, in it.
bool gather_from_memory(std::span<const std::byte> map, const std::byte* first,
                        const StridedRanges& ranges, std::byte* out) noexcept;

}  // namespace reshardfs
