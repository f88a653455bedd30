// SPDX-License-Identifier: Apache-2.0
#include "check/pairwise_stats.h"

#include <algorithm>

namespace reshardfs {

void PairwiseStats::add(std::uint64_t number, ElementStats stats) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = blocks_;  // of nodes on this level
  unsigned level = 0;
  for (; count > 1; ++level, number /= 2, count -= count / 2) {
    const std::uint64_t partner = number ^ 1U;
    if (partner >= count) continue;  // the last, alone
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Node& node) {
      return node.level == level && node.number == partner;
    });
    if (found == waiting_.end()) break;
    stats = partner < number ? merged(found->stats, stats) : merged(stats, found->stats);
    *found = waiting_.back();
    waiting_.pop_back();
  }
  waiting_.push_back({level, number, stats});
}

ElementStats PairwiseStats::result() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() ? ElementStats{} : waiting_.front().stats;
}

}  // namespace reshardfs
