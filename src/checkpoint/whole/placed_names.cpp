// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/placed_names.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>

namespace reshardfs {

std::vector<std::string> take_places(const std::vector<std::pair<std::string, std::size_t>>& places,
                                     std::vector<RankFile>& files) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const auto& [name, number] : places) numbers.emplace(name, number);
  std::vector<std::string> elsewhere;
  for (std::size_t i = 0; i < files.size() && !numbers.empty(); ++i) {
    if (!files[i].index) continue;
    const FileIndex& index = *files[i].index;
    const auto is_elsewhere = [&](const TensorEntry& entry) {
      const auto place = numbers.find(entry.name);
      if (place == numbers.end() || place->second == i) return false;
      const auto& there = files[place->second].index;
      return there && there->find(entry.name) != nullptr;
    };
    const auto& all = index.entries();
    if (index.has_boxes() || std::none_of(all.begin(), all.end(), is_elsewhere)) continue;
    std::vector<TensorEntry> kept;
    for (const TensorEntry& entry : all) {
      if (is_elsewhere(entry)) {
        elsewhere.push_back(entry.name);
      } else {
        kept.push_back(entry);
      }
    }
    files[i].index = std::make_shared<const FileIndex>(std::move(kept), IndexHints{}, BoxOffsets{},
                                                       index.refused());
  }
  return elsewhere;
}

}  // namespace reshardfs
