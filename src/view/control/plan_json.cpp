// SPDX-License-Identifier: Apache-2.0
#include "view/control/plan_json.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/rank_json.h"

namespace reshardfs {

std::vector<Rank> ranks_of(const std::vector<SourceTraffic>& traffic) {
  std::vector<Rank> ranks;
  for (const SourceTraffic& source : traffic) {
    if (ranks.empty() || ranks.back() != source.rank) ranks.push_back(source.rank);
  }
  return ranks;
}

nlohmann::ordered_json plan_json(Rank rank, const std::vector<SourceTraffic>& traffic) {
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (const SourceTraffic& source : traffic) {
    sources.push_back({{"rank", source.rank}, {"file", source.file}, {"bytes", source.bytes}});
  }
  return {{"rank", rank}, {"needed_ranks", ranks_of(traffic)}, {"sources", std::move(sources)}};
}

}  // namespace reshardfs
