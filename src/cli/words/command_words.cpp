// SPDX-License-Identifier: Apache-2.0
#include "cli/words/command_words.h"

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

namespace reshardfs {
namespace {

constexpr const char* kProgram = "reshardfs";
constexpr const char* kHelp = "help";

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
std::string missing_command(const std::string& word) {
  std::error_code failed;
  if (!std::filesystem::exists(word, failed)) return "";
  return fmt::format("to mount it: reshardfs mount {} MOUNTPOINT", printable(word));
}

[[noreturn]] void refuse_command(const CLI::App& group, const std::string& group_name,
                                 const std::string& word) {
  const std::vector<std::string> names = command_names(group);
  Error error(ErrorKind::kUsage,
              fmt::format("there is no command '{}{}'", group_name, printable(word)));
  if (const auto near = near_name(word, names)) {
    error.hint(fmt::format("did you mean '{}{}'?", group_name, *near));
  }
  if (group_name.empty()) error.hint(other_word(word)).hint(missing_command(word));
  throw error.hint(fmt::format("the commands are {}", fmt::join(names, ", ")));
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// The commands that have an option, "export and verify"; the program itself may be one.
void add_commands_with(const CLI::App& command, const std::string& option, const std::string& name,
                       std::vector<std::string>& out) {
  if (!name.empty() && command.get_option_no_throw(option) != nullptr) out.push_back(name);
  for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; })) {
    add_commands_with(*inner, option, (name.empty() ? "" : name + " ") + inner->get_name(), out);
  }
}

std::string commands_with(const CLI::App& app, const std::string& option) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  add_commands_with(app, option, "", names);
  if (names.empty()) return "";
  if (names.size() > kShown) {
    return fmt::format("{} and {} other commands have it", names.front(), names.size() - 1);
  }
  const std::string last = names.back();
  names.pop_back();
  if (names.empty()) return fmt::format("'{}' has it", last);
  return fmt::format("{} and {} have it", fmt::join(names, ", "), last);
}

/// Walks over the words behind a command.
class OptionCheck {
 public:
  OptionCheck(const CLI::App& app, const CLI::App& command, std::string command_name)
      : app_(app), command_(command), command_name_(std::move(command_name)) {}

  void run(const std::vector<std::string>& words, std::size_t first) const {
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = std::find(begin, words.end(), "--");
    // Who asks for help gets it.
    if (std::any_of(begin, end, [](const auto& w) { return w == "--help" || w == "-h"; })) return;
    for (auto word = begin; word != end; ++word) {
      if (word->size() < 2 || word->front() != '-') continue;
      if (is_mount_options(*word)) {
        if (word->size() == 2 && std::next(word) != end) ++word;
        continue;
      }
      const std::string* option =
          word->starts_with("--") ? long_option(*word) : short_options(*word);
      if (option == nullptr) continue;
      const auto value = std::next(word);
      if (value == words.end()) refuse_missing(*option, "");
      if (is_long_option(*value)) refuse_missing(*option, *value);
      word = value;
      if (word == end) return;  // "--" was a value
    }
  }

 private:
  /// -o, with its words or before them: see expand_arguments().
  bool is_mount_options(const std::string& word) const {
    return word.starts_with("-o") && command_.get_option_no_throw("--fuse-option") != nullptr;
  }

  bool is_long_option(const std::string& word) const {
    return word.starts_with("--") && word.size() > 2 &&
           command_.get_option_no_throw(word.substr(0, word.find('='))) != nullptr;
  }

  /// @return the word if its value is the next one.
  const std::string* long_option(const std::string& word) const {
    const std::size_t equals = word.find('=');
    const CLI::Option* option = command_.get_option_no_throw(word.substr(0, equals));
    if (option == nullptr) refuse_long(word.substr(0, equals));
    const bool takes_value = option->get_items_expected_max() > 0;
    return takes_value && equals == std::string::npos ? &word : nullptr;
  }

  /// A word of several letters, of which the last may have a value.
  const std::string* short_options(const std::string& word) const {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const CLI::Option* option = command_.get_option_no_throw(std::string("-") + word[i]);
      if (option == nullptr) refuse_short(word, word[i]);
      if (option->get_items_expected_max() == 0) continue;
      return i + 1 == word.size() ? &word : nullptr;
    }
    return nullptr;
  }

  std::string whose() const {
    return command_name_.empty() ? "there is no option" : command_name_ + " has no option";
  }

  std::string see_help() const {
    return fmt::format("see '{}{}{} --help'", kProgram, command_name_.empty() ? "" : " ",
                       command_name_);
  }

  [[noreturn]] void refuse_long(const std::string& name) const {
    Error error(ErrorKind::kUsage, fmt::format("{} '{}'", whose(), printable(name)));
    const std::string elsewhere = commands_with(app_, name);
    if (command_name_.empty() && !elsewhere.empty()) {
      error.hint("options follow the command, as in 'reshardfs mount " + name + " ...'");
    }
    // An option that exists is nearer than one that is only like it.
    throw error.hint(elsewhere.empty() ? "" : elsewhere + "; " + see_help())
        .hint(did_you_mean(name, long_options(command_)))
        .hint(see_help());
  }

  [[noreturn]] void refuse_short(const std::string& word, char letter) const {
    Error error(ErrorKind::kUsage,
                fmt::format("{} '{}'", whose(),
                            printable(word.size() == 2 ? word : word.substr(0, word.find('=')))));
    const std::string with_two_dashes = "-" + word.substr(0, word.find('='));
    if (word.size() > 2) error.hint(did_you_mean(with_two_dashes, long_options(command_)));
    const auto byte = static_cast<unsigned char>(letter);
    const auto other =
        static_cast<char>(std::isupper(byte) != 0 ? std::tolower(byte) : std::toupper(byte));
    const std::string name{'-', other};
    if (command_.get_option_no_throw(name) != nullptr) {
      error.hint("did you mean '" + name + "'?");
    }
    throw error.hint(see_help());
  }

  [[noreturn]] void refuse_missing(const std::string& option, const std::string& next) const {
    const CLI::Option* known = command_.get_option_no_throw(
        option.starts_with("--") ? option : std::string{'-', option.back()});
    throw Error(ErrorKind::kUsage,
                fmt::format("{} needs a value{}", option,
                            next.empty() ? "" : ", but '" + printable(next) + "' follows"))
        .hint(fmt::format("it takes {}; {}", known->get_type_name(), see_help()));
  }

  const CLI::App& app_;
  const CLI::App& command_;
  std::string command_name_;
};

const CLI::App* find_command(const CLI::App& group, const std::string& name) {
  const auto found =
      group.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(inner->get_name());
  }
  return names;
}

std::string command_line_name(const CLI::App& app) {
  std::string name = kProgram;
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return name;
}

std::vector<std::string> expand_help(std::vector<std::string> words) {
  if (words.empty() || words.front() != kHelp) return words;
  const bool of_help = words.size() > 1 && words[1].starts_with("-");
  if (of_help) return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

void check_command_words(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string name;
  std::size_t next = 0;
  while (!command_names(*command).empty() && next < words.size()) {
    const std::string& word = words[next];
    if (word.starts_with("-")) break;
    const CLI::App* inner = find_command(*command, word);
    if (inner == nullptr) refuse_command(*command, name.empty() ? "" : name + " ", word);
    command = inner;
    name += (name.empty() ? "" : " ") + word;
    ++next;
  }
  OptionCheck(app, *command, name).run(words, next);
}

}  // namespace reshardfs
