// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace reshardfs {

/// Bytes a second; nothing: not known.
struct Bandwidths {
  std::optional<double> node;   ///< of each node
  std::optional<double> store;  ///< of the store, to all nodes together
};

/// What no fetching is faster than, seconds; nothing where the bandwidth is not known.
struct FetchTimes {
  std::optional<double> node;   ///< of the node that fetches the most, at its bandwidth
  std::optional<double> store;  ///< of all bytes, at the store's

  /// The longer one.
  std::optional<double> least() const;
};

/// @param bytes that each node fetches.
FetchTimes fetch_times(const std::vector<std::uint64_t>& bytes, const Bandwidths& bandwidths);

}  // namespace reshardfs
