// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "check/element_stats.h"

namespace reshardfs {

/// Merges the statistics of a tensor's blocks, which come in any order, always in the same pairs: 0
/// with 1, 2 with 3, then those two, and so on. So the result does not depend on the order of
/// arrival, and rounding errors grow with the logarithm of the number of blocks. If blocks arrive
/// nearly in order, it holds a logarithmic number of them.
class PairwiseStats {
 public:
  explicit PairwiseStats(std::uint64_t blocks) : blocks_(blocks) {}

  /// Each number below `blocks` once; from any number of threads.
  void add(std::uint64_t number, ElementStats stats);
  /// Of all blocks, when all have come; of none, nothing.
  ElementStats result() const;

 private:
  /// Of blocks [number << level, (number + 1) << level).
  struct Node {
    unsigned level = 0;
    std::uint64_t number = 0;
    ElementStats stats;
  };

  std::uint64_t blocks_;
  mutable std::mutex mutex_;   // guards waiting_
  std::vector<Node> waiting_;  ///< for their partners; in the end the whole alone
};

}  // namespace reshardfs
