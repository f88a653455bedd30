// SPDX-License-Identifier: Apache-2.0
/// The number of bytes that each destination rank reads from each source rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reshardfs/rank.h"

#include "plan/target/target_table.h"

namespace reshardfs {

/// Groups of consecutive ranks, for drawings that cannot show each rank.
class RankGroups {
 public:
  /// @param ranks ascending, each once.
  /// @param most the maximum number of groups, at least 1. All groups but the last have the same
  ///        number of ranks, a power of two.
  RankGroups(std::vector<Rank> ranks, std::size_t most);

  const std::vector<Rank>& ranks() const noexcept { return ranks_; }
  /// The number of ranks in a group (the last group may have fewer).
  std::size_t group_size() const noexcept { return group_size_; }
  /// The number of groups.
  std::size_t size() const noexcept { return (ranks_.size() + group_size_ - 1) / group_size_; }
  /// The group of ranks()[position].
  std::size_t group_of(std::size_t position) const noexcept { return position / group_size_; }
  /// The index of a rank in ranks(), which must contain it.
  std::size_t position_of(Rank rank) const noexcept;
  std::span<const Rank> group(std::size_t number) const noexcept;

 private:
  std::vector<Rank> ranks_;
  std::size_t group_size_ = 1;
};

/// Parameters that every rank reads in the same way.
struct ParameterKind {
  std::size_t first = 0;  ///< the first one's number in the target
  std::uint64_t count = 0;
  /// The ranks from which it is read, ascending.
  std::vector<Rank> source_ranks;
};

/// The sums of traffic_of() over groups of ranks. Parameters of one kind are examined once, so that
/// the time depends on the number of kinds, not of parameters.
struct TrafficSurvey {
  RankGroups destinations;  ///< the requested ranks
  RankGroups sources;       ///< all ranks with files in the checkpoint
  /// Bytes of element data in the source's types; row-major, one row for each destination group.
  std::vector<std::uint64_t> group_bytes;
  std::vector<std::uint64_t> destination_bytes;  ///< in the order of destinations.ranks()
  std::vector<std::uint64_t> source_bytes;       ///< in the order of sources.ranks()
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
