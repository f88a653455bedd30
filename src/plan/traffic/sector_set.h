// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_range.h"

namespace reshardfs {

/// The units in which a cache divides files, in bytes. A block has 1 to 64 sectors.
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

/// The sectors of a file from which any byte is read. It uses one bit of memory for each sector.
class SectorSet {
 public:
  /// @param size of the file.
  SectorSet(std::uint64_t size, const CacheGrain& grain);

  /// @param range not beyond the file's end.
  void add(const ByteRange& range);
  /// Adds all pieces of a run, in at most one step for each sector of the file.
  void add(const StridedBytes& pieces);

  /// The number of the file's bytes in these sectors.
  std::uint64_t bytes() const noexcept;
  /// The number of the file's bytes in the blocks of these sectors.
  std::uint64_t block_bytes() const noexcept;

 private:
  std::uint64_t size_;
  CacheGrain grain_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace reshardfs
