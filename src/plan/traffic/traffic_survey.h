// SPDX-License-Identifier: Apache-2.0
/// Who reads how much from whom, over all ranks at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/target/target_table.h"
#include "plan/traffic/rank_groups.h"

namespace reshardfs {

/// Parameters that every rank reads in the same way.
struct ParameterKind {
  std::size_t first = 0;  ///< the first one's number in the target
  std::uint64_t count = 0;
  /// That it is read from, ascending.
  std::vector<Rank> source_ranks;
};

/// The sums of traffic_of() over groups of ranks. Parameters of one kind are looked at once, so
/// that the cost grows with the kinds of parameters, not with their number.
struct TrafficSurvey {
  RankGroups destinations;  ///< those that were asked for
  RankGroups sources;       ///< all that the checkpoint has files of
  /// Bytes of element data in the source's types; row-major, a row for each destination group.
  std::vector<std::uint64_t> group_bytes;
  std::vector<std::uint64_t> destination_bytes;  ///< as destinations.ranks()
  std::vector<std::uint64_t> source_bytes;       ///< as sources.ranks()
  std::uint64_t total_bytes = 0;
  std::vector<ParameterKind> kinds;
  /// The kind of each parameter of the target.
  std::vector<std::size_t> kind_of;

  std::uint64_t bytes(std::size_t destination_group, std::size_t source_group) const {
    return group_bytes[destination_group * sources.size() + source_group];
  }
};

/// @param ranks destination ranks, ascending, each once.
/// @param most_groups of ranks on either side.
TrafficSurvey survey_traffic(const TargetTable& target, std::vector<Rank> ranks,
                             std::size_t most_groups);

}  // namespace reshardfs
