// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace reshardfs {

/// `count` pieces of `length` bytes, equally far apart in a source and in memory.
struct Pieces {
  std::uint64_t offset = 0;  ///< of the first one in the source
  std::uint64_t length = 0;
  std::uint64_t count = 0;       ///< at least 1
  std::uint64_t stride = 0;      ///< between the starts of pieces in the source; >= length
  std::uint64_t out_stride = 0;  ///< the same in memory

  /// Bytes from the start of the first piece to the end of the last one in the source.
  std::uint64_t span() const noexcept { return (count - 1) * stride + length; }
};

/// Copies pieces from memory: `from` is the first one's start.
void copy_pieces(const std::byte* from, const Pieces& pieces, std::byte* out) noexcept;

}  // namespace reshardfs
