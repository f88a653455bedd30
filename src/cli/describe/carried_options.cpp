// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/carried_options.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/options/table.h"
#include "cli/options/value_checks.h"

namespace reshardfs {
namespace {

bool says_what_is_printed(std::string_view name) {
  constexpr std::array<std::string_view, 14> kNames{
      "json", "jobs", "verbose", "quiet", "log-level", "log-file", "config",
      "list", "tree", "depth",   "stats", "only-bad",  "why",      "fail-on-nan"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

std::vector<std::string> carried_options(const Given& given, const std::string& command) {
  const Command* const other = find_command(command);
  if (other == nullptr) return {};
  std::vector<std::string> words;
  for (const auto& [option, text] : given.options) {
    if (says_what_is_printed(option->name) || find_option(*other, option->name) == nullptr) {
      continue;
    }
    const std::string name = "--" + option->name;
    if (option->is_flag()) {
      if (flag_value(text) == true) words.push_back(name);
    } else if (text.empty() || text.starts_with('-')) {
      words.push_back(name + "=" + text);
    } else {
      words.insert(words.end(), {name, text});
    }
  }
  return words;
}

}  // namespace reshardfs
