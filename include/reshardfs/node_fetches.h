// SPDX-License-Identifier: Apache-2.0
/// How much the nodes of a cluster fetch from the storage of a checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// The unit in which a node's cache allocates room, in bytes: a block of a file, aligned to this
/// size.
inline constexpr std::uint64_t kCacheBlock = std::uint64_t{1} << 20;
/// The unit in which the cache fetches, in bytes; kCacheBlock is a multiple of it.
inline constexpr std::uint64_t kCacheSector = kCacheBlock;

/// Ranges of a tensor that begin less than this many bytes apart are read as one range, with the
/// bytes between them: separate requests would take longer.
inline constexpr std::uint64_t kJoinedStride = std::uint64_t{8} << 10;

/// The fetches of a node whose ranks each read the tensor data of their own file once, through
/// mounts on the node. All amounts are bytes, without the source files' headers.
struct NodeFetches {
  std::vector<Rank> ranks{};  ///< target ranks, ascending
  std::uint64_t needed = 0;   ///< tensor data in the ranks' files, in the target's types
  /// Fetched if the ranks share no cache.
  std::uint64_t fetched = 0;
  /// Fetched if all ranks share a cache on the node: each sector that any of them reads, once.
  std::uint64_t fetched_cached = 0;
  /// The size of that cache, in whole blocks.
  std::uint64_t cache = 0;
};

}  // namespace reshardfs
