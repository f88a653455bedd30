// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "storage/strided_ranges.h"

namespace reshardfs {

/// Copies ranges of a file out of a map of it, which lasts as long as the call: neither address
/// space nor page tables grow with what is read.
///
/// A page that the file no longer has, or that storage cannot deliver, raises SIGBUS. Here that
/// means that the copy is given up: the first call installs a handler, which leaves every SIGBUS
/// that is not this function's own to the handler that was there before. What the last page holds
/// behind the end of a file that has shrunk reads as zeros, so the caller must examine the file
/// afterwards, as after any read.
///
/// @return false if the file cannot be mapped or a page cannot be read; `out` is then undefined.
bool gather_from_map(int fd, const StridedRanges& ranges, std::byte* out) noexcept;

}  // namespace reshardfs
