// SPDX-License-Identifier: Apache-2.0
/// Statistics over the elements of a tensor, gathered piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "reshardfs/dtype.h"

#include "check/element_values.h"

namespace reshardfs {

/// Of all elements so far. NaN and infinity are counted, and in nothing else: one of them would
/// hide what the others are like.
struct ElementStats {
  std::uint64_t elements = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;  ///< of either sign
  std::uint64_t zeros = 0;       ///< -0.0 is one
  // The rest is of the finite elements, and 0 if there are none.
  WideReal min = 0;  ///< exact, as max
  WideReal max = 0;
  WideReal mean = 0;
  WideReal squares = 0;  ///< sum of the squared distances from the mean

  std::uint64_t finite() const noexcept { return elements - nans - infinities; }
  /// Standard deviation of the whole population (numpy.std()), or nothing if no element is finite.
  std::optional<WideReal> deviation() const noexcept;

  bool operator==(const ElementStats&) const = default;
};

/// Of `count` elements: booleans are 0 and 1. In one go the mean of each tile is found, then the
/// distances from it, so that nothing is lost where the mean is much larger than the deviation.
/// O(count); uses 64 KiB of stack. The same elements give the same result on every machine.
/// @param in need not be aligned.
/// @pre is_array(dtype)
ElementStats stats_of(DType dtype, const std::byte* in, std::size_t count) noexcept;

/// Of the elements of both. The last bits depend on the order of such merges.
ElementStats merged(const ElementStats& a, const ElementStats& b) noexcept;

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
