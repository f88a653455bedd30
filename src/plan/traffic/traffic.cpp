// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/traffic.h"

#include <map>
#include <tuple>
#include <utility>

namespace reshardfs {

namespace {

/// Parameters with one such key take equally many bytes from the same files.
using Kind = std::tuple<const CellPattern*, const Slicing*, DType>;

Kind kind_of(const TargetParameter& parameter, std::size_t stage) {
  const Slicing* const cut =
      parameter.treatment == Treatment::kReshard ? (*parameter.by_stage)[stage].get() : nullptr;
  return {&parameter.grid->pattern(), cut, parameter.source->dtype};
}

/// Files in the order of their ranks, and of their parts within a rank.
class Traffic {
 public:
  void add(const ShownTensor& view, std::uint64_t times) {
    view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (!holding || bytes == 0) return;
      auto& [file, total] = by_file_[{holding.file->rank, holding.file->part}];
      file = holding.file;
      total += bytes * times;
    });
  }

  std::vector<SourceTraffic> list() const {
    std::vector<SourceTraffic> list;
    list.reserve(by_file_.size());
    for (const auto& [place, of_file] : by_file_) {
      list.push_back({of_file.first->rank, of_file.first->path.string(), of_file.second});
    }
    return list;
  }

 private:
  std::map<std::pair<Rank, std::int64_t>, std::pair<const RankFile*, std::uint64_t>> by_file_;
};

}  // namespace

std::vector<SourceTraffic> traffic_of(const TargetTable& target, Rank rank) {
  Traffic traffic;
  // By kind, the first parameter and how many there are.
  std::map<Kind, std::pair<const TargetParameter*, std::uint64_t>> kinds;
  const std::size_t stage = target.stage_of(rank);
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    // Under Replicas::kOwn each rank reads files of its own, whatever the grid says.
    if (!parameter.grid || target.has_own_values()) {
      traffic.add(target.view(parameter, rank), 1);
      continue;
    }
    auto& [first, count] = kinds[kind_of(parameter, stage)];
    if (count++ == 0) first = &parameter;
  }
  for (const auto& [kind, alike] : kinds) {
    traffic.add(target.view(*alike.first, rank), alike.second);
  }
  return traffic.list();
}

}  // namespace reshardfs
