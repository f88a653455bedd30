// SPDX-License-Identifier: Apache-2.0
#include "cli/words/given_values.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/options/table.h"
#include "cli/words/word_answers.h"

namespace reshardfs {
namespace {

void add_texts(const Option& option, std::vector<std::string> texts, Given& given) {
  if (!option.is_repeatable()) texts = {fmt::format("{}", fmt::join(texts, ","))};
  for (std::string& text : texts) given.options.push_back({&option, std::move(text)});
}

}  // namespace

Given given_values(const Command& command, std::vector<std::string> arguments,
                   const std::vector<OptionValue>& values) {
  Given given(command);
  given.arguments = std::move(arguments);
  for (const OptionValue& value : values) {
    std::string name = value.name;
    std::replace(name.begin(), name.end(), '_', '-');
    const Option* const option = find_option(command, name);
    if (option == nullptr) refuse_long_option(given, "--" + name, {});
    if (!value.texts) {
      if (!option->is_flag()) refuse_missing_value(given, "--" + name, *option, "");
      given.options.push_back({option, "true"});
      continue;
    }
    std::vector<std::string> texts = *value.texts;
    if (value.is_number && option->takes == Takes::kSize) {
      for (std::string& text : texts) text += 'B';
    }
    add_texts(*option, std::move(texts), given);
  }
  return given;
}

}  // namespace reshardfs
