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
#include "reshardfs/strategy_rules.h"

#include "base/text/near_name.h"
#include "base/text/shell_text.h"
#include "cli/options/table.h"

namespace reshardfs {
namespace {

/// What other programs call a command.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kOtherWords{{
    {"info", "inspect"},
    {"show", "inspect"},
    {"ls", "inspect"},
    {"convert", "export"},
    {"merge", "export"},
    {"consolidate", "export"},
    {"reshard", "mount"},
    {"split", "mount"},
    {"serve", "mount"},
    {"compare", "diff"},
    {"check", "verify"},
    {"list", "status"},
    {"version", "--version"},
}};

std::string other_word(const std::string& word) {
  const auto* const found = std::find_if(kOtherWords.begin(), kOtherWords.end(),
                                         [&](const auto& known) { return known.first == word; });
  return found == kOtherWords.end() ? "" : fmt::format("did you mean '{}'?", found->second);
}

/// If the word is an existing path, the command was left out: one path is to be inspected; two are
/// a source and a mount point.
std::string command_for_file(const std::vector<std::string>& words) {
  std::error_code failed;
  if (!std::filesystem::exists(words.front(), failed)) return "";
  const bool mounts = words.size() > 1 && !words[1].starts_with('-');
  return "run: " + command_line(mounts ? "mount" : "inspect", {}, words);
}

/// The command that stands behind an option, and the words with it in front. Empty: there is none.
std::string with_command_first(std::vector<std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (find_command(words[i]) == nullptr) continue;
    std::rotate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return "run: " + command_line("", {}, words);
  }
  return {};
}

/// What other programs call the numbers of devices, and their names here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kSizeOptions{{
    {"tp", "tp"},
    {"pp", "pp"},
    {"ep", "ep"},
    {"dp", "dp"},
    {"mp", "tp"},
    {"tp-size", "tp"},
    {"tensor-parallel", "tp"},
    {"tensor-parallel-size", "tp"},
    {"tensor-model-parallel-size", "tp"},
    {"pipeline-parallel-size", "pp"},
}};

/// What other programs have an option for, and what does it here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kOtherOptions{{
    {"dtype", "--cast 'fp32->bf16' converts element types"},
    {"torch-dtype", "--cast 'fp32->bf16' converts element types"},
    {"layer", "--include '*.layers.3.*' selects parameters"},
    {"layers", "--include '*.layers.3.*' selects parameters"},
    {"to", "--dst-strategy states the target, such as tp=4"},
    {"target", "--dst-strategy states the target, such as tp=4"},
    {"strategy", "--src-strategy states how the source is cut, --dst-strategy the target"},
    {"from", "--src-strategy states how the source is cut"},
    {"tensor", "--param NAME of 'reshardfs cat' prints one, --include selects some"},
    {"html", "--output FILE.html writes the page"},
    {"lora", "merge an adapter with its model first, with merge_and_unload() of PEFT"},
    {"adapter", "merge an adapter with its model first, with merge_and_unload() of PEFT"},
    {"peft", "merge an adapter with its model first, with merge_and_unload() of PEFT"},
}};

std::string other_option(std::string_view option) {
  option.remove_prefix(2);
  const auto* const found = std::find_if(kOtherOptions.begin(), kOtherOptions.end(),
                                         [&](const auto& known) { return known.first == option; });
  return found == kOtherOptions.end() ? std::string() : std::string(found->second);
}

std::string_view size_of(std::string_view option) {
  if (!option.starts_with("--")) return {};
  option.remove_prefix(2);
  const auto* const found = std::find_if(kSizeOptions.begin(), kSizeOptions.end(),
                                         [&](const auto& known) { return known.first == option; });
  return found == kSizeOptions.end() ? std::string_view() : found->second;
}

/// Options "tp 2" and "pp 4" as one strategy; empty if that is not what stands there.
std::string with_sizes_together(const Given& given, const std::vector<std::string>& words) {
  if (find_option(given.command(), "dst-strategy") == nullptr) return {};
  std::vector<std::string> line;
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size());
    const std::string_view size = size_of(std::string_view(words[i]).substr(0, equals));
    if (size.empty()) {
      line.push_back(words[i]);
      continue;
    }
    const bool glued = equals < words[i].size();
    if (!glued && i + 1 == words.size()) return {};
    const std::string value = glued ? words[i].substr(equals + 1) : words[++i];
    sizes.push_back(fmt::format("{}={}", size, value));
  }
  const std::string strategy = fmt::format("{}", fmt::join(sizes, ","));
  if (!is_derivation(strategy)) return {};
  line.insert(line.end(), {"--dst-strategy", strategy});
  return "run: " + command_line(given.command().name, {}, line);
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

/// For a command with two sources, whose options have a letter each.
std::string of_two_sources(const Given& given, const std::string& name) {
  const std::size_t begin = name.starts_with("--src-") ? 6 : 2;
  const std::string plain = name.substr(std::min(begin, name.size()));
  if (find_option(given.command(), "a-" + plain) == nullptr) return {};
  return fmt::format("write {0}a-{1} for the first checkpoint, {0}b-{1} for the second", "--",
                     plain);
}

Error no_option(const Given& given, const std::string& word) {
  const std::string& command = given.command().name;
  return {
      ErrorKind::kUsage,
      fmt::format("{} '{}'", command.empty() ? "there is no option" : command + " has no option",
                  printable(word))};
}

}  // namespace

void refuse_command(const std::string& above, const std::vector<std::string>& words,
                    std::size_t place) {
  const std::string& word = words[place];
  const std::vector<std::string> names = commands_below(above);
  const std::string group = above.empty() ? "" : above + " ";
  Error error(ErrorKind::kUsage, fmt::format("there is no command '{}{}'", group, printable(word)));
  if (const auto near = near_name(word, names)) {
    error.hint(fmt::format("did you mean '{}{}'?", group, *near));
  }
  if (above.empty()) error.hint(other_word(word)).hint(command_for_file(words));
  throw error.hint(fmt::format("the commands are {}", fmt::join(names, ", ")));
}

void refuse_missing_command(const Command& command) {
  throw Error(ErrorKind::kUsage, "a command is missing")
      .hint(command.name.empty() ? "'reshardfs help' lists them"
                                 : fmt::format("write reshardfs {} {}", command.name,
                                               fmt::join(commands_below(command.name), "|")));
}

void refuse_long_option(const Given& given, const std::string& name,
                        const std::vector<std::string>& words) {
  Error error = no_option(given, name);
  const std::string elsewhere = commands_with(std::string_view(name).substr(2));
  if (given.command().name.empty() && !elsewhere.empty()) {
    error.explain(": options follow the command")
        .hint(with_command_first(words))
        .hint("as in 'reshardfs mount " + name + " ...'");
  }
  if (!size_of(name).empty()) error.hint(with_sizes_together(given, words));
  error.hint(of_two_sources(given, name));
  if (std::string other = other_option(name); !other.empty()) {
    throw error.hint(std::move(other)).hint(given.see_help());
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
