// SPDX-License-Identifier: Apache-2.0
#include "cli/words/read_words.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "cli/options/table.h"
#include "cli/words/mount_words.h"
#include "cli/words/word_answers.h"

namespace reshardfs {
namespace {

class Walk {
 public:
  Walk(const Command& command, const std::vector<std::string>& words)
      : command_(command), words_(words), given_(command) {}

  Given run() {
    for (; next_ < words_.size(); ++next_) {
      const std::string& word = words_[next_];
      if (word == "--") {
        given_.arguments.insert(given_.arguments.end(), at(next_ + 1), words_.end());
        break;
      }
      if (word.size() < 2 || word.front() != '-') {
        if (begins_rest()) {
          given_.arguments.insert(given_.arguments.end(), at(next_), words_.end());
          break;
        }
        given_.arguments.push_back(word);
      } else if (word.starts_with("--")) {
        take_long(word);
      } else if (word[1] == 'o' && takes_mount_words(command_)) {
        take_mount_words(word);
      } else {
        take_letters(word);
      }
    }
    require_joined_sizes();
    return std::move(given_);
  }

 private:
  /// The last use of an option counts, but sizes such as tp=2 and pp=2 look as if they added up.
  void require_joined_sizes() const {
    for (std::size_t i = 0; i < given_.options.size(); ++i) {
      const GivenOption& use = given_.options[i];
      if (use.option->is_repeatable() || !use.option->name.ends_with("strategy")) continue;
      for (std::size_t j = i + 1; j < given_.options.size(); ++j) {
        const GivenOption& later = given_.options[j];
        if (later.option != use.option || later.text == use.text) continue;
        if (use.text.find('=') == std::string::npos || later.text.find('=') == std::string::npos) {
          continue;
        }
        throw Error(ErrorKind::kUsage, "--" + use.option->name + " is given twice, as '" +
                                           printable(use.text) + "' and '" + printable(later.text) +
                                           "'")
            .hint("give all sizes in one: " + use.text + "," + later.text);
      }
    }
  }

  /// Whether the next argument takes all words that follow.
  bool begins_rest() const {
    const std::size_t number = given_.arguments.size();
    return number < command_.arguments.size() && command_.arguments[number].rest;
  }

  std::vector<std::string>::const_iterator at(std::size_t place) const {
    return words_.begin() + static_cast<std::ptrdiff_t>(place);
  }

  void take_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = find_option(command_, name.substr(2));
    if (option == nullptr) refuse_long_option(given_, name, words_);
    if (equals != std::string::npos) {
      given_.options.push_back({option, word.substr(equals + 1)});
    } else {
      given_.options.push_back({option, option->is_flag() ? "true" : value_behind(word, *option)});
    }
  }

  /// Flags, and at the end an option whose value follows.
  void take_letters(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Option* option = find_option(command_, word[i]);
      if (option == nullptr) refuse_letter(given_, word, word[i]);
      if (option->is_flag()) {
        given_.options.push_back({option, "true"});
        continue;
      }
      const bool glued = i + 1 < word.size();
      given_.options.push_back({option, glued ? word.substr(i + 1) : value_behind(word, *option)});
      return;
    }
  }

  std::string value_behind(const std::string& word, const Option& option) {
    if (next_ + 1 == words_.size()) refuse_missing_value(given_, word, option, "");
    const std::string& value = words_[++next_];
    const bool is_option =
        value.size() > 2 && value.starts_with("--") &&
        find_option(command_, std::string_view(value).substr(2, value.find('=') - 2)) != nullptr;
    if (is_option) refuse_missing_value(given_, word, option, value);
    return value;
  }

  void take_mount_words(const std::string& word) {
    if (word.size() == 2 && next_ + 1 == words_.size()) {
      throw Error(ErrorKind::kUsage, "-o needs a list of mount options, as in -o allow_other");
    }
    add_mount_words(word.size() > 2 ? word.substr(2) : words_[++next_], given_);
  }

  const Command& command_;
  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  Given given_;
};

bool asks_for(std::string_view option, const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, option) != end;
}

Given help_of(const Command& command) {
  Given given(command);
  given.options.push_back({find_option(command, "help"), "true"});
  return given;
}

/// @param next behind the words that name it.
const Command& named_command(const std::vector<std::string>& words, std::size_t& next) {
  const Command* command = &program_command();
  while (next < words.size() && !words[next].starts_with("-") &&
         !commands_below(command->name).empty()) {
    const std::string name = (command->name.empty() ? "" : command->name + " ") + words[next];
    const Command* const found = find_command(name);
    if (found == nullptr) refuse_command(command->name, words, next);
    command = found;
    ++next;
  }
  return *command;
}

}  // namespace

Given read_words_of(const Command& command, const std::vector<std::string>& words) {
  const bool has_help = find_option(command, "help") != nullptr;
  const bool in_full = has_help && asks_for("--help", words);
  if (!in_full && !(has_help && asks_for("-h", words))) return Walk(command, words).run();
  Given given = help_of(command);
  given.wants_brief_help = !in_full;
  return given;
}

Given read_words(const std::vector<std::string>& words) {
  std::size_t next = 0;
  const Command& command = named_command(words, next);
  Given given =
      read_words_of(command, {words.begin() + static_cast<std::ptrdiff_t>(next), words.end()});
  if (command.bit == commands::kHelp && !given.flag("help")) {
    next = 0;
    Given help = help_of(named_command(given.arguments, next));
    help.wants_brief_help = true;
    return help;
  }
  const std::vector<std::string> below = commands_below(command.name);
  const bool is_answered =
      given.flag("help") || (command.bit == commands::kProgram && given.flag("version"));
  if (!below.empty() && !is_answered) refuse_missing_command(command);
  return given;
}

}  // namespace reshardfs
