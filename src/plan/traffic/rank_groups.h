// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reshardfs/rank.h"

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

}  // namespace reshardfs
