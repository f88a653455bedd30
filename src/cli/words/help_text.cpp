// SPDX-License-Identifier: Apache-2.0
#include "cli/words/help_text.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text/text.h"
#include "cli/options/table.h"
#include "cli/options/usual_options.h"
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
/// A command with fewer options has them in one list, its own first.
constexpr std::size_t kOptionsWithoutGroups = 9;

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

std::string entry(const std::string& head, const std::string& text, std::size_t column,
                  std::size_t columns) {
  std::string out(kHeadIndent, ' ');
  out += head;
  const std::string indent(column, ' ');
  // Two blanks at least, by which programs tell the two apart.
  if (out.size() + 2 > column) {
    out += "\n" + indent;
  } else {
    out.resize(column, ' ');
  }
  const std::size_t width = std::max(columns, column + kNarrowestText) - column;
  return out + fmt::format("{}\n", fmt::join(wrapped_lines(text, width), "\n" + indent));
}

/// "-v, --verbose", "--step STEP|latest"
std::string head_of(const Option& option) {
  std::string head = option.letter == 0 ? "" : std::string{'-', option.letter} + ", ";
  head += "--" + option.name;
  return option.is_flag() ? head : head + " " + option.type;
}

std::string description_of(const Option& option) {
  std::string text = option.help;
  // Words that are its type are seen there.
  if (!option.choices.empty() && option.type.find('|') == std::string::npos) {
    text += fmt::format(" [possible values: {}]", fmt::join(option.choices, ", "));
  }
  if (!option.fallback.empty()) text += " [default: " + option.fallback + "]";
  return text;
}

std::string options_text(const Command& command, std::size_t columns) {
  std::vector<GroupOfCommand> groups = groups_of(command);
  if (options_of(command).size() < kOptionsWithoutGroups) {
    groups.front().title = "Options";
    for (std::size_t i = 1; i < groups.size(); ++i) groups[i].title.clear();
  }
  std::string out;
  for (const auto& [title, options] : groups) {
    if (!title.empty()) out += fmt::format("\n{}:\n", title);
    for (const Option* option : options) {
      out += entry(head_of(*option), description_of(*option), kOptionText, columns);
    }
  }
  return out;
}

std::string usage_line(const Command& command) {
  std::string line = "Usage: reshardfs" + (command.name.empty() ? "" : " " + command.name);
  if (!commands_below(command.name).empty()) return line + " COMMAND [OPTIONS]\n";
  line += " [OPTIONS]";
  for (const Argument& argument : command.arguments) {
    const std::string name = argument.name + (argument.many ? "..." : "");
    line += argument.required ? " " + name : " [" + name + "]";
  }
  return line + "\n";
}

std::string commands_text(const Command& above, std::size_t columns) {
  std::string out;
  std::string title;
  for (const std::string& name : commands_below(above.name)) {
    const Command& command = *find_command(above.name.empty() ? name : above.name + " " + name);
    const std::string of_command = command.title.empty() ? "Commands" : command.title;
    if (of_command != title) out += fmt::format("\n{}:\n", of_command);
    title = of_command;
    out += entry(name, command.summary, kCommandText, columns);
  }
  return out;
}

/// What an option is for, without its details: up to the first of ":;(", the end of a sentence, or
/// an example. What an option needs, as in "With --map: ...", is not yet what it is for.
std::string first_clause(const std::string& text) {
  const bool has_condition = text.starts_with("With") || text.starts_with("For ");
  const std::size_t begin = has_condition ? text.find(": ") + 1 : 0;
  const std::size_t end = std::min(
      {text.find_first_of(":;(", begin), text.find(". ", begin), text.find(", e.g.", begin)});
  std::string clause = text.substr(0, end);
  while (clause.ends_with(' ')) clause.pop_back();
  return clause;
}

/// The examples of a command, without what stands before them.
std::string examples_of(const Command& command) {
  constexpr std::string_view kExample = "Example";
  const std::size_t begin = command.footer.find(kExample);
  return begin == std::string::npos ? "" : command.footer.substr(begin);
}

/// Where the page is: "strategy show" is on that of "strategy".
std::string manual_line(const Command& command) {
  const std::string page = command.name.substr(0, command.name.find(' '));
  return fmt::format("The manual page is reshardfs-{}(1).\n", page);
}

}  // namespace

std::string brief_help_text(const Command& command, std::size_t columns) {
  const std::vector<const Option*> usual = usual_options(command);
  if (usual.empty()) return help_text(command, columns);
  std::string out = paragraphs(command.summary, columns) + "\n" + usage_line(command) + "\n";
  for (const Option* option : usual) {
    out += entry(head_of(*option), first_clause(option->help), kOptionText, columns);
  }
  out += "\n" + paragraphs(examples_of(command), columns) + "\n";
  const std::size_t others = options_of(command).size() - usual.size();
  return out + fmt::format("reshardfs {} --help lists {} more options.\n", command.name, others) +
         manual_line(command);
}

std::string help_text(const Command& command, std::size_t columns) {
  std::string out = paragraphs(command.summary, columns) + "\n" + usage_line(command);
  if (!command.arguments.empty()) out += "\nArguments:\n";
  for (const Argument& argument : command.arguments) {
    out += entry(argument.name, argument.help, kCommandText, columns);
  }
  if (!commands_below(command.name).empty()) out += commands_text(command, columns);
  out += options_text(command, columns);
  if (!command.footer.empty()) out += "\n" + paragraphs(command.footer, columns);
  return command.name.empty() ? out : out + "\n" + manual_line(command);
}

std::size_t help_columns() {
  const std::size_t columns = output_columns();
  return columns == kAnyWidth ? kColumnsOfNoTerminal : std::min(columns, kWidestLine);
}

}  // namespace reshardfs
