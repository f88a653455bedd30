// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/rank_groups.h"

#include <algorithm>
#include <utility>

namespace reshardfs {

RankGroups::RankGroups(std::vector<Rank> ranks, std::size_t most) : ranks_(std::move(ranks)) {
  while (size() > most) group_size_ *= 2;
}

std::size_t RankGroups::position_of(Rank rank) const noexcept {
  return static_cast<std::size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) -
                                  ranks_.begin());
}

std::span<const Rank> RankGroups::group(std::size_t number) const noexcept {
  const std::size_t begin = number * group_size_;
  const std::size_t count = std::min(group_size_, ranks_.size() - begin);
  return std::span(ranks_).subspan(begin, count);
}

}  // namespace reshardfs
