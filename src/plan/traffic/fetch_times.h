// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace reshardfs {

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
