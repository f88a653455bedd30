// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_range.h"

namespace reshardfs {

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
