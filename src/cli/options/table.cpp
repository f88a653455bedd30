// SPDX-License-Identifier: Apache-2.0
#include "cli/options/table.h"

#include <utility>

#include "cli/options/groups.h"

namespace reshardfs {

const std::vector<OptionGroup>& all_options() {
  static const std::vector<OptionGroup> groups{
      {"Source", source_group()},
      {"First checkpoint (A)", side_group('a')},
      {"Second checkpoint (B)", side_group('b')},
      {"Target", target_group()},
      {"Names and model families", map_group()},
      {"What is shown", shown_group()},
      {"Comparison", comparison_group()},
      {"Mount", mount_group()},
      {"Speed", speed_group()},
      {"Servers", server_group()},
      {"Log", log_group()},
      {"Options", other_group()},
  };
  return groups;
}

std::vector<const Option*> options_of(const Command& command) {
  std::vector<const Option*> options;
  for (const OptionGroup& group : all_options()) {
    for (const Option& option : group.options) {
      if ((option.commands & command.bit) != 0) options.push_back(&option);
    }
  }
  return options;
}

const Option* find_option(const Command& command, std::string_view name) {
  for (const Option* option : options_of(command)) {
    if (option->name == name) return option;
  }
  return nullptr;
}

const Option* find_option(const Command& command, char letter) {
  for (const Option* option : options_of(command)) {
    if (option->letter == letter) return option;
  }
  return nullptr;
}

}  // namespace reshardfs
