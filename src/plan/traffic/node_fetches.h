// SPDX-License-Identifier: Apache-2.0
/// A model of what the nodes of a cluster fetch from the store, and how long that takes at least.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "reshardfs/node_fetches.h"

#include "plan/target/target_table.h"
#include "plan/traffic/sector_set.h"

namespace reshardfs {

/// The ranks spread over `nodes` nodes: neighbors on one node, as many on each; the last ones have
/// one rank less where that does not come out even.
/// @param nodes from 1 to as many as there are ranks.
std::vector<std::vector<Rank>> ranks_of_nodes(const std::vector<Rank>& ranks, std::size_t nodes);

/// How much is fetched beside what is needed.
struct FetchGrain {
  CacheGrain cache{kCacheSector, kCacheBlock};
  std::uint64_t joined_stride = kJoinedStride;  ///< 0: nothing is joined
};

/// What each node fetches. Parameters that are cut in the same way are looked at once, and nodes
/// one after the other. Time grows with ranks times parameters; memory is a bit for each sector of
/// the source.
std::vector<NodeFetches> node_fetches(const TargetTable& target,
                                      const std::vector<std::vector<Rank>>& nodes,
                                      const FetchGrain& grain = {});

}  // namespace reshardfs
