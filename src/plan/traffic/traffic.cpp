// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/traffic.h"

#include <map>
#include <utility>

namespace reshardfs {

std::vector<SourceTraffic> traffic_of(const TargetTable& target, Rank rank) {
  // Files in the order of their ranks, and of their parts within a rank.
  std::map<std::pair<Rank, std::int64_t>, SourceTraffic> by_file;
  target.for_each_tensor(rank, [&](const TargetParameter&, const ShownTensor& view) {
    view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (!holding || bytes == 0) return;
      SourceTraffic& traffic = by_file[{holding.file->rank, holding.file->part}];
      traffic.rank = holding.file->rank;
      traffic.file = holding.file->path.string();
      traffic.bytes += bytes;
    });
  });
  std::vector<SourceTraffic> list;
  list.reserve(by_file.size());
  for (auto& [file, traffic] : by_file) list.push_back(std::move(traffic));
  return list;
}

}  // namespace reshardfs
