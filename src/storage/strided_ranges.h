// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_range.h"

namespace reshardfs {

/// Ranges of equal length, equally far apart in a source and in memory. Invariant: there is at
/// least one, they do not overlap in the source, and the end of the last one fits in 64 bits.
class StridedRanges {
 public:
  /// Bytes between the starts of ranges.
  struct Strides {
    std::uint64_t source = 0;
    std::uint64_t memory = 0;
  };

  /// @param first of them, in the source.
  /// @throws Error kBadInput if that does not hold.
  StridedRanges(ByteRange first, std::uint64_t count, Strides strides);

  std::uint64_t offset() const noexcept { return span_.offset(); }  ///< of the first one
  std::uint64_t length() const noexcept { return length_; }         ///< of each
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t stride() const noexcept { return strides_.source; }
  std::uint64_t out_stride() const noexcept { return strides_.memory; }
  /// From the start of the first range to the end of the last one in the source.
  const ByteRange& span() const noexcept { return span_; }
  /// The offset of a range in the source, and in memory; `index` is less than count().
  std::uint64_t offset_of(std::uint64_t index) const noexcept {
    return offset() + index * stride();
  }
  std::uint64_t out_offset_of(std::uint64_t index) const noexcept { return index * out_stride(); }

  /// The same ranges with the first one elsewhere. @throws Error kBadInput as the constructor.
  StridedRanges moved_to(std::uint64_t offset) const {
    return {ByteRange(offset, length_), count_, strides_};
  }
  /// At most `count` of them from `begin` on, which is less than count().
  StridedRanges part(std::uint64_t begin, std::uint64_t count) const;

 private:
  ByteRange span_;
  std::uint64_t length_;
  std::uint64_t count_;
  Strides strides_;
};

/// Copies ranges from memory: `from` is the first one's start.
void copy_ranges(const std::byte* from, const StridedRanges& ranges, std::byte* out) noexcept;

}  // namespace reshardfs
