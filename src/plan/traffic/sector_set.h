// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_range.h"

namespace reshardfs {

/// How a cache divides files, bytes. A block has 1 to 64 sectors.
struct CacheGrain {
  std::uint64_t sector = 0;
  std::uint64_t block = 0;
};

/// `count` equally long pieces, `stride` bytes apart.
struct StridedBytes {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< of one piece, at least 1
  std::uint64_t count = 1;
  std::uint64_t stride = 0;  ///< between the starts of pieces; >= length
};

/// The sectors of a file that somebody reads a byte of. Memory: one bit for each sector.
class SectorSet {
 public:
  /// @param size of the file.
  SectorSet(std::uint64_t size, const CacheGrain& grain);

  /// @param range not beyond the file's end.
  void add(const ByteRange& range);
  /// The same of all pieces of a run. Costs no more than one step for each sector of the file,
  /// however many pieces there are.
  void add(const StridedBytes& pieces);

  /// Bytes of the file in these sectors.
  std::uint64_t bytes() const noexcept;
  /// Bytes of the file in the blocks that they are part of.
  std::uint64_t block_bytes() const noexcept;

 private:
  std::uint64_t size_;
  CacheGrain grain_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace reshardfs
