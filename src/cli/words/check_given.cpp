// SPDX-License-Identifier: Apache-2.0
#include "cli/words/check_given.h"

#include <algorithm>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "cli/options/table.h"
#include "cli/options/value_checks.h"
#include "cli/words/word_answers.h"

namespace reshardfs {
namespace {

void check_values(const Given& given) {
  for (const auto& [option, text] : given.options) {
    if (option->takes != Takes::kList) check_value(*option, text, given.see_help());
  }
  for (const Option* option : options_of(given.command())) {
    if (option->takes != Takes::kList) continue;
    for (const std::string& word : given.texts(option->name)) {
      check_value(*option, word, given.see_help());
    }
  }
}

void check_arguments(const Given& given) {
  const std::vector<Argument>& expected = given.command().arguments;
  for (std::size_t i = given.arguments.size(); i < expected.size(); ++i) {
    const Argument& missing = expected[i];
    if (!missing.required || (!missing.unless.empty() && given.has(missing.unless))) continue;
    throw Error(ErrorKind::kUsage, missing.name + " is missing")
        .needs(Need::kArgument)
        .hint("write " + usage_of(given));
  }
  for (std::size_t i = 0; i < std::min(given.arguments.size(), expected.size()); ++i) {
    // Commands that need a mount point tell of it themselves, as do those that can do without.
    const bool may_be_empty = !expected[i].required || expected[i].name == "MOUNTPOINT";
    if (!given.arguments[i].empty() || may_be_empty) continue;
    throw Error(ErrorKind::kUsage, expected[i].name + " is empty").hint("write " + usage_of(given));
  }
  const bool takes_any_number = !expected.empty() && expected.back().many;
  if (given.arguments.size() <= expected.size() || takes_any_number) return;
  const std::vector<std::string> surplus(
      given.arguments.begin() + static_cast<std::ptrdiff_t>(expected.size()),
      given.arguments.end());
  throw Error(ErrorKind::kUsage, fmt::format("{} too many: {}", counted(surplus.size(), "argument"),
                                             name_list(surplus)))
      .hint("write " + usage_of(given));
}

bool is_there(const Given& given, const std::string& name) {
  return find_option(given.command(), name) != nullptr ? given.has(name) : given.has_argument(name);
}

void check_company(const Given& given, const Option& option) {
  for (const std::string& other : option.excludes) {
    if (!given.has(other)) continue;
    throw Error(ErrorKind::kUsage, fmt::format("--{} excludes --{}", option.name, other))
        .hint(given.see_help());
  }
  for (const std::string& other : option.needs) {
    if (is_there(given, other)) continue;
    const bool is_option = find_option(given.command(), other) != nullptr;
    throw Error(ErrorKind::kUsage,
                fmt::format("--{} requires {}{}", option.name, is_option ? "--" : "", other))
        .hint(given.see_help());
  }
}

void check_options(const Given& given) {
  for (const Option* option : options_of(given.command())) {
    if (given.has(option->name)) {
      check_company(given, *option);
    } else if (option->required) {
      throw Error(ErrorKind::kUsage, "--" + option->name + " is missing")
          .needs(Need::kArgument)
          .hint(given.see_help());
    }
  }
}

}  // namespace

void check_given(const Given& given) {
  check_values(given);
  check_arguments(given);
  check_options(given);
}

}  // namespace reshardfs
