// SPDX-License-Identifier: Apache-2.0
/// How finely dcp/ cuts tensors that no strategy cuts. PyTorch reads an archive as a whole, so that
/// a rank reads each block of which it wants a row. More blocks mean less of that, but each costs
/// the reader half a millisecond and some pages at its ends, and 150 bytes in .metadata.
#pragma once

#include <cstdint>

namespace reshardfs {

inline constexpr std::int64_t kMostRowBlocks = 64;

/// The rows of each block but the last, at least 1. The number of blocks is a power of two where
/// there are rows enough, as most numbers of ranks are: 2 from 256 KiB on, 16 of 16 MiB, 64 from
/// 256 MiB on, so that n blocks have n * 64 KiB each.
/// @param rows at least 1.
/// @param bytes of all of them.
std::int64_t rows_of_block(std::int64_t rows, std::uint64_t bytes) noexcept;

}  // namespace reshardfs
