// SPDX-License-Identifier: Apache-2.0
#include "cli/words/word_answers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "cli/options/table.h"

namespace reshardfs {
namespace {

/// What other programs call a command.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOtherWords{{
    {"info", "inspect"},
    {"show", "inspect"},
    {"ls", "inspect"},
    {"convert", "export"},
    {"compare", "diff"},
    {"check", "verify"},
    {"version", "--version"},
}};

std::string other_word(const std::string& word) {
  const auto* const found = std::find_if(kOtherWords.begin(), kOtherWords.end(),
                                         [&](const auto& known) { return known.first == word; });
  return found == kOtherWords.end() ? "" : fmt::format("did you mean '{}'?", found->second);
}

/// Nobody calls a command like a file; who leaves the command out wants what most do.
std::string command_for_file(const std::string& word) {
  std::error_code failed;
  if (!std::filesystem::exists(word, failed)) return "";
  return fmt::format("to mount it: reshardfs mount {} MOUNTPOINT", printable(word));
}

std::vector<std::string> long_options(const Command& command) {
  std::vector<std::string> names;
  for (const Option* option : options_of(command)) names.push_back("--" + option->name);
  return names;
}

/// "'export' has it", "export and verify have it"
std::string commands_with(std::string_view option) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  for (const Command& command : all_commands()) {
    if (find_option(command, option) != nullptr) names.push_back(command.name);
  }
  if (names.empty()) return "";
  if (names.size() > kShown) {
    return fmt::format("{} and {} other commands have it", names.front(), names.size() - 1);
  }
  const std::string last = names.back();
  names.pop_back();
  if (names.empty()) return fmt::format("'{}' has it", last);
  return fmt::format("{} and {} have it", fmt::join(names, ", "), last);
}

Error no_option(const Given& given, const std::string& word) {
  const std::string& command = given.command().name;
  return {
      ErrorKind::kUsage,
      fmt::format("{} '{}'", command.empty() ? "there is no option" : command + " has no option",
                  printable(word))};
}

}  // namespace

void refuse_command(const std::string& above, const std::string& word) {
  const std::vector<std::string> names = commands_below(above);
  const std::string group = above.empty() ? "" : above + " ";
  Error error(ErrorKind::kUsage, fmt::format("there is no command '{}{}'", group, printable(word)));
  if (const auto near = near_name(word, names)) {
    error.hint(fmt::format("did you mean '{}{}'?", group, *near));
  }
  if (above.empty()) error.hint(other_word(word)).hint(command_for_file(word));
  throw error.hint(fmt::format("the commands are {}", fmt::join(names, ", ")));
}

void refuse_missing_command(const Command& command) {
  throw Error(ErrorKind::kUsage, "a command is missing")
      .hint(command.name.empty() ? "'reshardfs help' lists them"
                                 : fmt::format("write reshardfs {} {}", command.name,
                                               fmt::join(commands_below(command.name), "|")));
}

void refuse_long_option(const Given& given, const std::string& name) {
  Error error = no_option(given, name);
  const std::string elsewhere = commands_with(std::string_view(name).substr(2));
  if (given.command().name.empty() && !elsewhere.empty()) {
    error.hint("options follow the command, as in 'reshardfs mount " + name + " ...'");
  }
  // An option that exists is nearer than one that is only like it.
  throw error.hint(elsewhere.empty() ? "" : elsewhere + "; " + given.see_help())
      .hint(did_you_mean(name, long_options(given.command())))
      .hint(given.see_help());
}

void refuse_letter(const Given& given, const std::string& word, char letter) {
  const std::string name = word.substr(0, word.find('='));
  Error error = no_option(given, word.size() == 2 ? word : name);
  if (word.size() > 2) error.hint(did_you_mean("-" + name, long_options(given.command())));
  const auto byte = static_cast<unsigned char>(letter);
  const auto other =
      static_cast<char>(std::isupper(byte) != 0 ? std::tolower(byte) : std::toupper(byte));
  if (find_option(given.command(), other) != nullptr) {
    error.hint(fmt::format("did you mean '-{}'?", other));
  }
  throw error.hint(given.see_help());
}

void refuse_missing_value(const Given& given, const std::string& word, const Option& option,
                          const std::string& next) {
  throw Error(ErrorKind::kUsage,
              fmt::format("{} needs a value{}", word,
                          next.empty() ? "" : ", but '" + printable(next) + "' follows"))
      .hint(fmt::format("it takes {}; {}", option.type, given.see_help()));
}

std::string usage_of(const Given& given) {
  std::string usage = given.command_line();
  for (const Argument& argument : given.command().arguments) {
    usage += argument.required ? " " + argument.name : " [" + argument.name + "]";
  }
  return usage;
}

}  // namespace reshardfs
