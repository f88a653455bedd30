// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace reshardfs {

// As in APPNOTE.TXT of the ZIP format, bytes.
inline constexpr std::uint64_t kZipLocalBytes = 30;
inline constexpr std::uint64_t kZipWideEndBytes = 56;
/// Stands in a field of 32 bits for a value that is elsewhere, in 64.
inline constexpr std::uint64_t kZipWide = 0xffffffff;
/// The same in a field of 16 bits, for the number of entries.
inline constexpr std::uint64_t kZipWideCount = 0xffff;

}  // namespace reshardfs
