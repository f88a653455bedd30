// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/fetch_times.h"

#include <algorithm>
#include <numeric>

namespace reshardfs {

std::optional<double> FetchTimes::least() const {
  if (!node) return store;
  if (!store) return node;
  return std::max(*node, *store);
}

FetchTimes fetch_times(const std::vector<std::uint64_t>& bytes, const Bandwidths& bandwidths) {
  FetchTimes times;
  if (bytes.empty()) return times;
  const auto most = static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
  const auto all =
      static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
  if (bandwidths.node) times.node = most / *bandwidths.node;
  if (bandwidths.store) times.store = all / *bandwidths.store;
  return times;
}

}  // namespace reshardfs
