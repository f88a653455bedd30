// SPDX-License-Identifier: Apache-2.0
/// What the nodes of a cluster fetch from the store of a checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// What a cache on a node keeps room for, bytes: a block of a file, which begins at a multiple of
/// this.
inline constexpr std::uint64_t kCacheBlock = std::uint64_t{1} << 20;
/// What it takes from the store at once, bytes; kCacheBlock is a multiple of it.
inline constexpr std::uint64_t kCacheSector = kCacheBlock;

/// Ranges of a tensor that begin less than this many bytes apart are read with what is
/// between them: a request for each would take longer.
inline constexpr std::uint64_t kJoinedStride = std::uint64_t{8} << 10;

/// A node whose ranks each read the tensor data of their own file, once, through mounts on the
/// node. All are bytes; the source files' headers are not among them.
struct NodeFetches {
  std::vector<Rank> ranks{};  ///< target ranks, ascending
  std::uint64_t needed = 0;   ///< tensor data in the ranks' files, in the target's types
  /// What is fetched if each rank fetches for itself what it reads.
  std::uint64_t fetched = 0;
  /// What is fetched if all ranks share a cache on the node: each sector that one of them reads a
  /// byte of, once.
  std::uint64_t fetched_cached = 0;
  /// What that cache keeps room for: whole blocks.
  std::uint64_t cache = 0;
};

}  // namespace reshardfs
