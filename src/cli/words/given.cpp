// SPDX-License-Identifier: Apache-2.0
#include "cli/words/given.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "cli/options/table.h"
#include "cli/options/value_checks.h"

namespace reshardfs {
namespace {

constexpr const char* kProgramName = "reshardfs";

void add_words_of_list(const std::string& list, std::vector<std::string>& out) {
  if (list.empty()) out.emplace_back();
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) out.push_back(word);
  if (list.ends_with(',')) out.emplace_back();
}

}  // namespace

std::string Given::command_line() const {
  return command_->name.empty() ? kProgramName : kProgramName + (" " + command_->name);
}

std::string Given::see_help() const {
  return "see '" + command_line() + " --help'";
}

const Option& Given::known(std::string_view name) const {
  const Option* const option = find_option(*command_, name);
  if (option != nullptr) return *option;
  throw Error(ErrorKind::kInternal,
              command_->name + " reads --" + std::string(name) + ", which it does not have");
}

const std::string* Given::last(const Option& option) const {
  const auto found = std::find_if(options.rbegin(), options.rend(),
                                  [&](const GivenOption& use) { return use.option == &option; });
  if (found != options.rend()) return &found->text;
  return option.fallback.empty() ? nullptr : &option.fallback;
}

bool Given::has(std::string_view name) const {
  const Option& option = known(name);
  if (option.is_flag()) return flag(name);
  return std::any_of(options.begin(), options.end(),
                     [&](const GivenOption& use) { return use.option == &option; });
}

bool Given::flag(std::string_view name) const {
  const std::string* const text = last(known(name));
  return text != nullptr && flag_value(*text) == true;
}

std::string Given::text(std::string_view name) const {
  const std::string* const text = last(known(name));
  return text == nullptr ? "" : *text;
}

std::vector<std::string> Given::texts(std::string_view name) const {
  const Option& option = known(name);
  std::vector<std::string> texts;
  for (const GivenOption& use : options) {
    if (use.option != &option) continue;
    if (option.takes == Takes::kList) {
      add_words_of_list(use.text, texts);
    } else {
      texts.push_back(use.text);
    }
  }
  return texts;
}

std::optional<std::int64_t> Given::number(std::string_view name) const {
  const std::string* const text = last(known(name));
  if (text == nullptr) return std::nullopt;
  return parse_signed_number(*text);
}

double Given::real(std::string_view name) const {
  return std::strtod(text(name).c_str(), nullptr);
}

std::uint64_t Given::size(std::string_view name) const {
  return size_in_bytes(known(name), text(name));
}

std::size_t Given::place_of(std::string_view name) const {
  const auto& expected = command_->arguments;
  const auto found = std::find_if(expected.begin(), expected.end(),
                                  [&](const Argument& argument) { return argument.name == name; });
  if (found != expected.end()) return static_cast<std::size_t>(found - expected.begin());
  throw Error(ErrorKind::kInternal,
              command_->name + " reads " + std::string(name) + ", which it does not take");
}

std::string Given::argument(std::string_view name) const {
  const std::size_t place = place_of(name);
  return place < arguments.size() ? arguments[place] : "";
}

std::vector<std::string> Given::arguments_of(std::string_view name) const {
  const std::size_t place = std::min(place_of(name), arguments.size());
  return {arguments.begin() + static_cast<std::ptrdiff_t>(place), arguments.end()};
}

std::vector<std::string> typed_words(const GivenOption& use) {
  const std::string name = "--" + use.option->name;
  if (use.option->is_flag()) {
    return {flag_value(use.text) == true ? name : name + "=" + use.text};
  }
  if (use.text.empty() || use.text.starts_with('-')) return {name + "=" + use.text};
  return {name, use.text};
}

std::vector<std::string> Given::plain_words() const {
  std::vector<std::string> words;
  std::istringstream names(command_->name);
  for (std::string name; names >> name;) words.push_back(name);
  for (const auto& [option, text] : options) {
    if (option->name == "config") continue;
    if (option->is_flag() && flag_value(text) == true) {
      words.push_back("--" + option->name);
    } else if (text.empty()) {
      // Behind '=', versions before this one would take the next word.
      words.insert(words.end(), {"--" + option->name, ""});
    } else {
      words.push_back("--" + option->name + "=" + text);
    }
  }
  if (!arguments.empty()) words.emplace_back("--");
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace reshardfs
