// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/record_order.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace reshardfs {

std::vector<Rank> needed_ranks(const TargetTable& target, Rank rank) {
  std::set<Rank> ranks;
  target.for_each_tensor(rank, [&](const TargetParameter&, const ShownTensor& view) {
    view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (holding && bytes > 0) ranks.insert(holding.file->rank);
    });
  });
  return {ranks.begin(), ranks.end()};
}

/// The name that the files have; that of a map's tensor is its own.
const std::string& name_in_order(const SourceTable& source, const SourceParameter& parameter) {
  const bool is_mapped = source.mapped_from() != nullptr;
  return is_mapped ? parameter.name : parameter.holders.front().entry->name;
}

std::vector<const TargetParameter*> in_file_order(const TargetTable& target, Rank rank) {
  const SourceTable& source = target.source();
  std::unordered_map<std::string_view, std::size_t> place;  // name to its number in the file
  // The files do not have the names that a map shows; the map says the order.
  std::vector<Rank> ranks;
  if (source.mapped_from() == nullptr) ranks = needed_ranks(target, rank);
  std::reverse(ranks.begin(), ranks.end());
  std::unordered_set<const void*> walked;
  for (const Rank needed : ranks) {
    for (const RankFile& file : source.checkpoint().files_of(needed)) {
      // Ranks of one stage list the same names: walking them again would add nothing.
      if (!walked.insert(file.index->name_order()).second) continue;
      for (const TensorEntry& entry : file.index->entries()) {
        place.try_emplace(entry.name, place.size());
      }
    }
  }
  // Tensors without a byte may be in none of those files; they come last, in the source's order.
  for (const SourceParameter& parameter : source.parameters()) {
    place.try_emplace(name_in_order(source, parameter), place.size());
  }
  struct Placed {
    std::pair<bool, std::size_t> key;
    const TargetParameter* parameter;
  };
  std::vector<Placed> placed;
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    const bool other = parameter.treatment != Treatment::kReshard;
    placed.push_back({{other, place.at(name_in_order(source, *parameter.source))}, &parameter});
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.key < b.key; });
  std::vector<const TargetParameter*> order;
  order.reserve(placed.size());
  for (const Placed& item : placed) order.push_back(item.parameter);
  return order;
}

}  // namespace reshardfs
