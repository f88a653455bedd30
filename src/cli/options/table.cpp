// SPDX-License-Identifier: Apache-2.0
#include "cli/options/table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/options/groups.h"

namespace reshardfs {
namespace {

template <typename IsIt>
const Option* find(const Command& command, const IsIt& is_it) {
  for (const OptionGroup& group : all_options()) {
    for (const Option& option : group.options) {
      if ((option.commands & command.bit) != 0 && is_it(option)) return &option;
    }
  }
  return nullptr;
}

bool is_of_run(const std::string& name) {
  // What keeps a mount beyond its process, or needs none.
  constexpr std::array<std::string_view, 7> kNotOfRun{
      "foreground",       "check-only", "warm",       "fuse-socket",
      "fuse-socket-wait", "supervise",  "crash-limit"};
  return std::find(kNotOfRun.begin(), kNotOfRun.end(), name) == kNotOfRun.end();
}

std::vector<OptionGroup> with_options_of_run(std::vector<OptionGroup> groups) {
  for (OptionGroup& group : groups) {
    for (Option& option : group.options) {
      if ((option.commands & commands::kMount) != 0 && is_of_run(option.name)) {
        option.commands |= commands::kRun;
      }
    }
  }
  return groups;
}

}  // namespace

const std::vector<OptionGroup>& all_options() {
  static const std::vector<OptionGroup> groups = with_options_of_run({
      {"Options", own_group()},
      {"First checkpoint (A)", side_group('a')},
      {"Second checkpoint (B)", side_group('b')},
      {"Comparison", comparison_group()},
      {"Mount", mount_group()},
      {"Speed", speed_group()},
      {"Source", source_group()},
      {"Target", target_group()},
      {"Names and model families", map_group()},
      {"What is shown", shown_group()},
      {"Servers", server_group()},
      {"Log", log_group()},
      {"General", general_group()},
  });
  return groups;
}

std::vector<GroupOfCommand> groups_of(const Command& command) {
  std::vector<GroupOfCommand> groups;
  for (const OptionGroup& group : all_options()) {
    GroupOfCommand own{group.title, {}};
    for (const Option& option : group.options) {
      if ((option.commands & command.bit) != 0) own.options.push_back(&option);
    }
    if (!own.options.empty()) groups.push_back(std::move(own));
  }
  return groups;
}

std::vector<const Option*> options_of(const Command& command) {
  std::vector<const Option*> options;
  for (const GroupOfCommand& group : groups_of(command)) {
    options.insert(options.end(), group.options.begin(), group.options.end());
  }
  return options;
}

const Option* find_option(const Command& command, std::string_view name) {
  return find(command, [name](const Option& option) { return option.name == name; });
}

const Option* find_option(const Command& command, char letter) {
  return find(command, [letter](const Option& option) { return option.letter == letter; });
}

}  // namespace reshardfs
