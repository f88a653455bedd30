// SPDX-License-Identifier: Apache-2.0
#include "base/text/equal_reasons.h"

#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "base/text/name_groups.h"
#include "base/text/text.h"

namespace reshardfs {

std::vector<std::string> names_by_reason(
    const std::vector<std::pair<std::string, std::string>>& all) {
  constexpr std::size_t kMostNames = 20;
  std::unordered_map<std::string_view, std::size_t> known;
  std::vector<std::vector<std::string>> names;
  std::vector<std::string> words;
  for (const auto& [name, reason] : all) {
    const auto [found, is_new] = known.emplace(reason, names.size());
    if (is_new) {
      names.emplace_back();
      words.push_back(" (" + reason + ")");
    }
    names[found->second].push_back(name);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    words[i].insert(0, name_list(group_names(names[i]), kMostNames));
  }
  return words;
}

}  // namespace reshardfs
