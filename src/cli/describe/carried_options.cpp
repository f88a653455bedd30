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
  constexpr std::array<std::string_view, 15> kNames{
      "json", "jobs", "verbose", "quiet", "log-level", "log-file", "log-format", "config",
      "list", "tree", "depth",   "stats", "only-bad",  "why",      "fail-on-nan"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

std::vector<std::string> carried_options(const Given& given, const std::string& command) {
  const Command* const other = find_command(command);
  if (other == nullptr) return {};
  std::vector<std::string> words;
  for (const GivenOption& use : given.options) {
    const Option& option = *use.option;
    if (says_what_is_printed(option.name) || find_option(*other, option.name) == nullptr) continue;
    if (option.is_flag() && flag_value(use.text) != true) continue;
    const std::vector<std::string> typed = typed_words(use);
    words.insert(words.end(), typed.begin(), typed.end());
  }
  return words;
}

}  // namespace reshardfs
