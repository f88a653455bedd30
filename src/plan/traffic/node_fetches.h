// SPDX-License-Identifier: Apache-2.0
/// Computes how much the nodes of a cluster fetch from the store, and the least time that this
/// takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reshardfs/node_fetches.h"

#include "plan/target/target_table.h"
#include "plan/traffic/sector_set.h"

namespace reshardfs {

/// Spreads the ranks over `nodes` nodes in order. The first nodes have one rank more if the ranks
/// do not divide evenly.
/// @param nodes 1 to the number of ranks.
std::vector<std::vector<Rank>> ranks_of_nodes(const std::vector<Rank>& ranks, std::size_t nodes);

/// The granularity of fetching, which adds bytes to those that are needed.
struct FetchGrain {
  CacheGrain cache{kCacheSector, kCacheBlock};
  std::uint64_t joined_stride = kJoinedStride;  ///< 0: nothing is joined
};

/// The fetches of each node. Parameters that are cut in the same way are examined once, and nodes
/// one after the other. Takes time in proportion to ranks times parameters, and one bit of memory
/// for each sector of the source.
std::vector<NodeFetches> node_fetches(const TargetTable& target,
                                      const std::vector<std::vector<Rank>>& nodes,
                                      const FetchGrain& grain = {});

/// In bytes per second; nullopt: unknown.
struct Bandwidths {
  std::optional<double> node;   ///< of each node
  std::optional<double> store;  ///< of the store, to all nodes together
};

/// Lower bounds of the time to fetch, in seconds; nullopt if the bandwidth is unknown.
struct FetchTimes {
  std::optional<double> node;   ///< of the node that fetches the most, at its bandwidth
  std::optional<double> store;  ///< of all bytes, at the store's bandwidth

  /// The larger of the two bounds.
  std::optional<double> least() const;
};

/// @param bytes the number of bytes that each node fetches.
FetchTimes fetch_times(const std::vector<std::uint64_t>& bytes, const Bandwidths& bandwidths);

}  // namespace reshardfs
