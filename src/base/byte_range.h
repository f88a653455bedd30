// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "base/checked.h"

namespace reshardfs {

/// The bytes from offset() up to end(). Invariant: the end fits in 64 bits, so that users can add
/// and compare without checking for overflow.
class ByteRange {
 public:
  /// Empty, at 0.
  constexpr ByteRange() noexcept = default;
  /// @throws Error kBadInput if there can be no such end.
  ByteRange(std::uint64_t offset, std::uint64_t length)
      : offset_(offset), end_(add_or_throw(offset, length, "the end of a range of bytes")) {}
  /// @throws Error kBadInput if the end is before the beginning.
  static ByteRange between(std::uint64_t begin, std::uint64_t end) {
    if (begin <= end) return {begin, end - begin};
    throw Error(ErrorKind::kBadInput, "a range of bytes from " + std::to_string(begin) +
                                          " ends before that, at " + std::to_string(end));
  }
  /// All of something of so many bytes.
  static ByteRange whole(std::uint64_t length) { return {0, length}; }

  constexpr std::uint64_t offset() const noexcept { return offset_; }
  constexpr std::uint64_t end() const noexcept { return end_; }
  constexpr std::uint64_t length() const noexcept { return end_ - offset_; }
  constexpr bool empty() const noexcept { return offset_ == end_; }
  constexpr bool contains(const ByteRange& inner) const noexcept {
    return offset_ <= inner.offset_ && inner.end_ <= end_;
  }

  /// Its first `count` bytes, or all if they are fewer.
  ByteRange first(std::uint64_t count) const { return {offset_, std::min(count, length())}; }
  /// What is left without them.
  ByteRange behind_first(std::uint64_t count) const {
    return between(offset_ + std::min(count, length()), end_);
  }

  constexpr bool operator==(const ByteRange&) const noexcept = default;

 private:
  std::uint64_t offset_ = 0;
  std::uint64_t end_ = 0;
};

/// Reads a range of a ByteSource, a VirtualFile or what else has their read_at(), and calls
/// visit(span) for one block after the other. Holds one block of at most 1 MiB.
template <typename Source, typename Visit>
void for_each_block(const Source& source, ByteRange range, Visit&& visit) {
  constexpr std::uint64_t kBlockBytes = 1U << 20U;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(kBlockBytes, range.length())));
  while (!range.empty()) {
    const ByteRange next = range.first(block.size());
    const std::span<std::byte> part =
        std::span(block).first(static_cast<std::size_t>(next.length()));
    source.read_at(next.offset(), part);
    visit(std::span<const std::byte>(part));
    range = range.behind_first(next.length());
  }
}

}  // namespace reshardfs
