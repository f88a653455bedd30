// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "cli/options/table.h"
#include "cli/options/value_checks.h"
#include "cli/words/help_text.h"

namespace reshardfs {
namespace {

std::vector<const Command*> every_command() {
  std::vector<const Command*> all{&program_command(), &python_command()};
  for (const Command& command : all_commands()) all.push_back(&command);
  return all;
}

std::set<std::string> names_of(const Command& command) {
  std::set<std::string> names;
  for (const Option* option : options_of(command)) names.insert(option->name);
  return names;
}

TEST(OptionTable, NoCommandHasAnOptionOrALetterTwice) {
  for (const Command* command : every_command()) {
    std::set<std::string> names;
    std::set<char> letters;
    for (const Option* option : options_of(*command)) {
      EXPECT_TRUE(names.insert(option->name).second) << command->name << " --" << option->name;
      if (option->letter == 0) continue;
      EXPECT_TRUE(letters.insert(option->letter).second) << command->name << " -" << option->letter;
    }
  }
}

TEST(OptionTable, EveryCommandHasBitsOfItsOwn) {
  std::set<Commands> bits;
  for (const Command* command : every_command()) {
    if (command->bit == commands::kGroup) continue;
    EXPECT_TRUE(bits.insert(command->bit).second) << command->name;
  }
}

TEST(OptionTable, EveryOptionBelongsToACommand) {
  Commands known = 0;
  for (const Command* command : every_command()) known |= command->bit;
  for (const OptionGroup& group : all_options()) {
    for (const Option& option : group.options)
      EXPECT_NE(option.commands & known, 0U) << option.name;
  }
}

TEST(OptionTable, DefaultsAreWhatTheOptionTakes) {
  for (const OptionGroup& group : all_options()) {
    for (const Option& option : group.options) {
      EXPECT_FALSE(option.help.empty()) << option.name;
      EXPECT_EQ(option.is_flag(), option.type.empty()) << option.name;
      if (option.fallback.empty()) continue;
      EXPECT_NO_THROW(check_value(option, option.fallback, "")) << option.name;
      EXPECT_FALSE(option.required) << option.name;
    }
  }
}

TEST(OptionTable, WordsOfATypeAreItsChoices) {
  for (const OptionGroup& group : all_options()) {
    for (const Option& option : group.options) {
      if (option.choices.empty() || option.type.find('|') == std::string::npos) continue;
      for (const std::string& choice : option.choices) {
        EXPECT_NE(("|" + option.type + "|").find("|" + choice + "|"), std::string::npos)
            << option.name << " " << choice;
      }
    }
  }
}

TEST(OptionTable, CompanyIsOfTheSameCommand) {
  for (const Command* command : every_command()) {
    std::set<std::string> names = names_of(*command);
    for (const Argument& argument : command->arguments) names.insert(argument.name);
    for (const Option* option : options_of(*command)) {
      for (const std::string& other : option->needs) EXPECT_TRUE(names.contains(other)) << other;
      for (const std::string& other : option->excludes) EXPECT_TRUE(names.contains(other)) << other;
    }
    for (const Argument& argument : command->arguments) {
      if (!argument.unless.empty()) {
        EXPECT_TRUE(names.contains(argument.unless));
      }
    }
  }
}

TEST(OptionTable, RepeatableOptionsSaySo) {
  for (const OptionGroup& group : all_options()) {
    for (const Option& option : group.options) {
      if (option.takes != Takes::kTexts) continue;
      const bool says = option.help.find("(repeatable") != std::string::npos ||
                        option.help.find("once per") != std::string::npos;
      EXPECT_TRUE(says) << option.name;
    }
  }
}

TEST(OptionTable, CommandsAreFoundByTheirNames) {
  for (const Command& command : all_commands()) EXPECT_EQ(find_command(command.name), &command);
  EXPECT_EQ(find_command("mout"), nullptr);
  EXPECT_EQ(commands_below("map"), (std::vector<std::string>{"list", "check", "show"}));
  EXPECT_TRUE(commands_below("mount").empty());
}

TEST(OptionTable, HelpFitsItsColumns) {
  const std::string text = help_text(*find_command("umount"), 60);
  EXPECT_TRUE(text.starts_with("Unmount a checkpoint\n\nUsage: reshardfs umount [OPTIONS] "));
  EXPECT_NE(text.find("  -h, --help              Print this help and exit\n"), std::string::npos);
}

}  // namespace
}  // namespace reshardfs
