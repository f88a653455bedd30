// SPDX-License-Identifier: Apache-2.0
#include "cli/words/help_formatter.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text/wrapped_text.h"
#include "report/text/terminal.h"

namespace reshardfs {
namespace {

/// Where descriptions of options begin, and what an entry's head is indented by.
constexpr std::size_t kOptionText = 26;
/// The same of commands and arguments, whose names are shorter.
constexpr std::size_t kCommandText = 14;
constexpr std::size_t kHeadIndent = 2;
constexpr std::size_t kNarrowestText = 20;
/// Lines that are longer are hard to read.
constexpr std::size_t kWidestLine = 100;
constexpr std::size_t kColumnsOfNoTerminal = 80;

/// A command with fewer options has them in one list.
constexpr std::size_t kOptionsWithoutGroups = 9;

struct OptionGroup {
  const char* title;
  std::vector<std::string_view> names;
};

/// In the order of --help. Options that are in none of them come last.
const std::vector<OptionGroup>& option_groups_in_order() {
  static const std::vector<OptionGroup> groups{
      {"Source",
       {"src-strategy", "src-pattern", "src-prefix", "src-join", "step", "replicas", "state-prefix",
        "check-crc", "no-symlinks", "dec-key-file", "dec-mode"}},
      {"First checkpoint (A)",
       {"a-strategy", "a-step", "a-pattern", "a-prefix", "a-join", "a-replicas", "a-dec-key-file",
        "a-dec-mode", "a-map", "a-map-direction", "a-model-config", "a-training-config",
        "a-map-var"}},
      {"Second checkpoint (B)",
       {"b-strategy", "b-step", "b-pattern", "b-prefix", "b-join", "b-replicas", "b-dec-key-file",
        "b-dec-mode", "b-map", "b-map-direction", "b-model-config", "b-training-config",
        "b-map-var"}},
      {"Target", {"dst-strategy", "ranks", "share", "unmatched"}},
      {"Names and model families",
       {"map", "map-direction", "model-config", "training-config", "map-var", "name-map"}},
      {"What is shown",
       {"views", "format", "include", "exclude", "cast", "params", "prefix", "shard-size",
        "dcp-shards", "dcp-release", "metadata", "align", "crc"}},
      {"Comparison", {"atol", "rtol", "nan-differs", "strict-types"}},
      {"Mount",
       {"foreground", "check-only", "nonempty", "allow-other", "uid", "gid", "file-mode",
        "dir-mode", "fuse-socket", "fuse-socket-wait", "fuse-option"}},
      {"Speed", {"jobs", "memory", "page-cache", "direct-io", "read-ahead-kb", "passthrough"}},
      {"Servers",
       {"s3-endpoint", "s3-region", "s3-profile", "s3-addressing", "s3-anonymous", "ca-file",
        "remote-timeout", "prefetch-memory", "cache-dir", "cache-size"}},
      {"Log", {"verbose", "quiet", "log-level", "log-file"}},
  };
  return groups;
}

/// Group and place in it, as numbers; those of no group come last, as they were added.
std::pair<std::size_t, std::size_t> place_of(const CLI::Option& option) {
  const std::string name = option.get_lnames().empty() ? "" : option.get_lnames().front();
  const std::vector<OptionGroup>& groups = option_groups_in_order();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto found = std::find(groups[i].names.begin(), groups[i].names.end(), name);
    if (found != groups[i].names.end()) {
      return {i, static_cast<std::size_t>(found - groups[i].names.begin())};
    }
  }
  return {groups.size(), 0};
}

/// Paragraphs are wrapped; lines that are indented, such as commands, stay.
std::string paragraphs(const std::string& text, std::size_t width) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == ' ') {
      out += line + "\n";
    } else {
      out += fmt::format("{}\n", fmt::join(wrapped_lines(line, width), "\n"));
    }
  }
  return out;
}

/// "-v, --verbose", "--step STEP|latest"
std::string head_of(const CLI::Option& option, const std::string& type) {
  std::string head;
  for (const std::string& name : option.get_snames()) head += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) head += "--" + name + ", ";
  head.resize(head.size() - 2);
  return type.empty() ? head : head + " " + type;
}

/// CLI11 has the words that an argument may be behind its name: "LIST:{ckpt,safetensors}".
std::pair<std::string, std::string> type_and_words(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  std::string type = option.get_type_name();
  const auto colon = type.find(':');
  if (colon == std::string::npos) return {type, ""};
  std::string words = type.substr(colon + 1);
  type.resize(colon);
  if (words.size() < 2 || words.front() != '{' || words.back() != '}') return {type, ""};
  words = words.substr(1, words.size() - 2);
  std::string alternatives = words;
  std::replace(alternatives.begin(), alternatives.end(), ',', '|');
  if (alternatives == type) return {type, ""};
  for (std::size_t comma = words.find(','); comma != std::string::npos;
       comma = words.find(',', comma + 2)) {
    words.insert(comma + 1, " ");
  }
  return {type, words};
}

std::string positional_usage(const CLI::Option& option) {
  std::string name = option.get_name(/*positional=*/true, /*all_options=*/false);
  if (option.get_expected_max() > 1) name += "...";
  return option.get_required() ? name : "[" + name + "]";
}

std::string usage(const CLI::App& app) {
  std::string line;
  for (const CLI::App* level = &app; level != nullptr; level = level->get_parent()) {
    line = " " + level->get_name() + line;
  }
  line = "Usage:" + line;
  if (!app.get_subcommands({}).empty()) return line + " COMMAND [OPTIONS]\n";
  line += " [OPTIONS]";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) line += " " + positional_usage(*option);
  }
  return line + "\n";
}

}  // namespace

std::string HelpFormatter::entry(const std::string& head, const std::string& text,
                                 std::size_t column) const {
  std::string out(kHeadIndent, ' ');
  out += head;
  const std::string indent(column, ' ');
  // Two blanks at least, by which programs tell the two apart.
  if (out.size() + 2 > column) {
    out += "\n" + indent;
  } else {
    out.resize(column, ' ');
  }
  const std::size_t width = std::max(columns_, column + kNarrowestText) - column;
  out += fmt::format("{}\n", fmt::join(wrapped_lines(text, width), "\n" + indent));
  return out;
}

std::string HelpFormatter::option_groups(const CLI::App& app) const {
  std::vector<const CLI::Option*> options =
      app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
  const std::size_t other = option_groups_in_order().size();
  const bool together = options.size() < kOptionsWithoutGroups;
  if (!together) {
    std::stable_sort(options.begin(), options.end(),
                     [](const CLI::Option* one, const CLI::Option* two) {
                       return place_of(*one) < place_of(*two);
                     });
  }
  std::string out;
  std::optional<std::size_t> current;
  for (const CLI::Option* option : options) {
    const std::size_t group = together ? other : place_of(*option).first;
    if (group != current) {
      out += fmt::format("\n{}:\n",
                         group == other ? "Options" : option_groups_in_order()[group].title);
      current = group;
    }
    const auto [type, words] = type_and_words(*option);
    std::string text = option->get_description();
    if (!words.empty()) text += " [possible values: " + words + "]";
    if (option->get_type_size() != 0 && !option->get_default_str().empty()) {
      text += " [default: " + option->get_default_str() + "]";
    }
    out += entry(head_of(*option, type), text, kOptionText);
  }
  return out;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                     CLI::AppFormatMode /*mode*/) const {
  std::string out = paragraphs(app->get_description(), columns_) + "\n" + usage(*app);
  std::string positionals;
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional()) {
      positionals += entry(option->get_name(true, false), option->get_description(), kCommandText);
    }
  }
  if (!positionals.empty()) out += "\nArguments:\n" + positionals;
  std::vector<std::string> titles;
  for (const CLI::App* command : app->get_subcommands({})) {
    if (std::find(titles.begin(), titles.end(), command->get_group()) == titles.end()) {
      titles.push_back(command->get_group());
    }
  }
  for (const std::string& title : titles) {
    out += "\n" + title + ":\n";
    for (const CLI::App* command : app->get_subcommands({})) {
      if (command->get_group() != title) continue;
      out += entry(command->get_name(), command->get_description(), kCommandText);
    }
  }
  out += option_groups(*app);
  if (!app->get_footer().empty()) out += "\n" + paragraphs(app->get_footer(), columns_);
  return out;
}

std::shared_ptr<HelpFormatter> help_formatter() {
  const std::size_t columns = output_columns();
  return std::make_shared<HelpFormatter>(columns == kAnyWidth ? kColumnsOfNoTerminal
                                                              : std::min(columns, kWidestLine));
}

}  // namespace reshardfs
