// SPDX-License-Identifier: Apache-2.0
#include "view/control/plan_json.h"

namespace reshardfs {

std::vector<Rank> ranks_of(const std::vector<SourceTraffic>& traffic) {
  std::vector<Rank> ranks;
  for (const SourceTraffic& source : traffic) {
    if (ranks.empty() || ranks.back() != source.rank) ranks.push_back(source.rank);
  }
  return ranks;
}

void write_plan(JsonWriter& json, Rank rank, const std::vector<SourceTraffic>& traffic) {
  json.open_object();
  json.member("rank", rank.number());
  json.open_list("needed_ranks");
  for (const Rank needed : ranks_of(traffic)) json.number(needed.number());
  json.close_list();
  json.open_list("sources");
  for (const SourceTraffic& source : traffic) {
    json.open_object();
    json.member("rank", source.rank.number());
    json.member("file", source.file);
    json.member("bytes", source.bytes);
    json.close_object();
  }
  json.close_list();
  json.close_object();
}

}  // namespace reshardfs
