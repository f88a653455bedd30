// SPDX-License-Identifier: Apache-2.0
#include "cli/words/usage_answers.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "base/text/text.h"
#include "cli/words/command_words.h"

namespace reshardfs {
namespace {

const CLI::App& parsed_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

/// "reshardfs mount SOURCE MOUNTPOINT"
std::string usage_of(const CLI::App& app) {
  std::string usage = command_line_name(app);
  for (const CLI::Option* option : parsed_command(app).get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(/*positional=*/true);
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  return usage;
}

bool is_argument(const CLI::App& command, const std::string& name) {
  const std::vector<const CLI::Option*> options = command.get_options();
  return std::any_of(options.begin(), options.end(), [&](const CLI::Option* option) {
    return option->get_positional() && option->get_name(/*positional=*/true) == name;
  });
}

std::string missing(const CLI::App& app, const std::string& text) {
  constexpr std::string_view kEnd = " is required";
  const CLI::App& command = parsed_command(app);
  if (text.starts_with("A subcommand")) {
    if (&command == &app) return "a command is missing; 'reshardfs help' lists them";
    return fmt::format("a command is missing; write {} {}", command_line_name(app),
                       fmt::join(command_names(command), "|"));
  }
  if (!text.ends_with(kEnd)) return "";
  const std::string name = text.substr(0, text.size() - kEnd.size());
  if (is_argument(command, name)) return name + " is missing; write " + usage_of(app);
  return fmt::format("{} is missing; see '{} --help'", name, command_line_name(app));
}

std::string surplus(const CLI::App& app) {
  const std::vector<std::string> words = parsed_command(app).remaining();
  if (words.empty()) return "";
  return fmt::format("{} too many: {}; write {}", counted(words.size(), "argument"),
                     name_list(words), usage_of(app));
}

/// What CLI11 finds wrong with the value of an option.
struct WrongValue {
  std::string option;
  std::string value;
  std::string expected;  ///< as CLI11 has it
};

/// Takes "OPTION: <before>VALUE<between>EXPECTED<end>" apart.
std::optional<WrongValue> take_apart(const std::string& text, std::string_view before,
                                     std::string_view between, std::string_view end) {
  const std::size_t colon = text.find(": ");
  const std::size_t middle = text.rfind(between);
  if (colon == std::string::npos || middle == std::string::npos || !text.ends_with(end)) return {};
  const std::size_t value = colon + 2 + before.size();
  if (middle < value || !std::string_view(text).substr(colon + 2).starts_with(before)) return {};
  const std::size_t expected = middle + between.size();
  return WrongValue{text.substr(0, colon), text.substr(value, middle - value),
                    text.substr(expected, text.size() - end.size() - expected)};
}

std::string does_not_take(const WrongValue& wrong) {
  return fmt::format("{} does not take '{}'", wrong.option, printable(wrong.value));
}

/// An option of a few words.
std::string wrong_word(const WrongValue& wrong) {
  std::istringstream list(wrong.expected);
  std::vector<std::string> words;
  for (std::string word; std::getline(list, word, ',');) words.push_back(word);
  const std::string near = did_you_mean(wrong.value, words);
  return fmt::format("{}; {}", does_not_take(wrong),
                     near.empty() ? fmt::format("it takes {}", fmt::join(words, ", ")) : near);
}

std::string wrong_value(const std::string& text) {
  if (const auto wrong = take_apart(text, "", " not in {", "}")) return wrong_word(*wrong);
  if (const auto wrong = take_apart(text, "Value ", " not in range ", "")) {
    return fmt::format("{}; it takes {}", does_not_take(*wrong), wrong->expected);
  }
  if (const auto wrong = take_apart(text, "", " unit not recognized. Allowed values: {", "}")) {
    return fmt::format("{}: there is no unit '{}'; write a size such as 500MB, 5GB or 5GiB",
                       wrong->option, printable(wrong->value));
  }
  return "";
}

/// "Could not convert: --read-ahead-kb = x"
std::string wrong_number(const CLI::App& app, const std::string& text) {
  const auto wrong = take_apart(text, "", " = ", "");
  if (!wrong) return "";
  return fmt::format("{} does not take '{}'; see '{} --help'", wrong->value,
                     printable(wrong->expected), command_line_name(app));
}

}  // namespace

std::string usage_answer(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string answer;
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) answer = missing(app, text);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) answer = surplus(app);
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) answer = wrong_value(text);
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    answer = wrong_number(app, text);
  }
  if (!answer.empty()) return answer;
  return printable(text) + "; see '" + command_line_name(app) + " --help'";
}

}  // namespace reshardfs
