// SPDX-License-Identifier: Apache-2.0
#include "plan/record_order.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace reshardfs {

std::vector<std::int64_t> needed_ranks(const std::vector<TargetTensor>& tensors) {
  std::set<std::int64_t> ranks;
  for (const TargetTensor& tensor : tensors) {
    tensor.view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (holding && bytes > 0) ranks.insert(holding.file->rank);
    });
  }
  return {ranks.begin(), ranks.end()};
}

void sort_for_file(std::vector<TargetTensor>& tensors, const SourceTable& source) {
  std::unordered_map<std::string_view, std::size_t> place;  // name to its number in the file
  std::vector<std::int64_t> ranks = needed_ranks(tensors);
  std::reverse(ranks.begin(), ranks.end());
  std::unordered_set<const void*> walked;
  for (const std::int64_t rank : ranks) {
    for (const RankFile& file : source.checkpoint().files_of(rank)) {
      // Ranks of one stage list the same names: walking them again would add nothing.
      if (!walked.insert(file.index->name_order()).second) continue;
      for (const TensorEntry& entry : file.index->entries()) {
        place.try_emplace(entry.name, place.size());
      }
    }
  }
  // Tensors without a byte may be in none of those files; they come last, in the source's order.
  for (const SourceParameter& parameter : source.parameters()) {
    place.try_emplace(parameter.name, place.size());
  }
  const auto key = [&](const TargetTensor& tensor) {
    const bool other = tensor.parameter->treatment != Treatment::kReshard;
    return std::pair(other, place.at(tensor.parameter->source->name));
  };
  std::sort(tensors.begin(), tensors.end(),
            [&](const TargetTensor& a, const TargetTensor& b) { return key(a) < key(b); });
}

}  // namespace reshardfs
