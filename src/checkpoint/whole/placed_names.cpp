// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/placed_names.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "base/text/text.h"

namespace reshardfs {

bool are_all_in_place(const std::vector<std::pair<std::string_view, std::size_t>>& places,
                      const std::vector<RankFile>& files) {
  std::vector<std::size_t> taken(files.size(), 0);  // of each file's entries
  for (const auto& [name, number] : places) {
    if (number >= files.size() || !files[number].index) return false;
    const std::vector<TensorEntry>& entries = files[number].index->entries();
    std::size_t& next = taken[number];
    if (next == entries.size() || entries[next].name != name) return false;
    ++next;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool has_all = files[i].index && taken[i] == files[i].index->entries().size() &&
                         files[i].index->refused().empty();
    if (!has_all) return false;
  }
  return true;
}

std::vector<std::string> take_places(
    const std::vector<std::pair<std::string_view, std::size_t>>& places,
    std::vector<RankFile>& files) {
  if (are_all_in_place(places, files)) return {};
  std::unordered_map<std::string_view, std::size_t> numbers;
  numbers.reserve(places.size());
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

std::string in_two_files(const std::vector<std::string>& names) {
  return "in two files, and taken from the one that the index names: " + name_list(names);
}

}  // namespace reshardfs
