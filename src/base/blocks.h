// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reshardfs {

/// Reads bytes [begin, end) of a ByteSource, a VirtualFile or what else has their read_at(), and
/// calls visit(span) for one block after the other. Holds one block of at most 1 MiB.
template <typename Source, typename Visit>
void for_each_block(const Source& source, std::uint64_t begin, std::uint64_t end, Visit&& visit) {
  constexpr std::uint64_t kBlockBytes = 1U << 20U;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(kBlockBytes, end - begin)));
  while (begin < end) {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), end - begin));
    const std::span<std::byte> part = std::span(block).first(bytes);
    source.read_at(begin, part);
    visit(std::span<const std::byte>(part));
    begin += bytes;
  }
}

}  // namespace reshardfs
