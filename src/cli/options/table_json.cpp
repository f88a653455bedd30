// SPDX-License-Identifier: Apache-2.0
#include "cli/options/table_json.h"

#include <string>

#include <nlohmann/json.hpp>

#include "cli/options/table.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

Json option_json(const Option& option, const std::string& group) {
  return {{"name", option.name},
          {"letter", option.letter == 0 ? "" : std::string{option.letter}},
          {"flag", option.is_flag()},
          {"number", option.takes == Takes::kNumber},
          {"repeatable", option.is_repeatable()},
          {"list", option.takes == Takes::kList},
          {"type", option.type},
          {"choices", option.choices},
          {"default", option.fallback},
          {"required", option.required},
          {"excludes", option.excludes},
          {"group", group},
          {"help", option.help}};
}

Json command_json(const Command& command) {
  Json arguments = Json::array();
  for (const Argument& argument : command.arguments) {
    arguments.push_back({{"name", argument.name},
                         {"required", argument.required},
                         {"many", argument.many},
                         {"help", argument.help}});
  }
  Json options = Json::array();
  for (const GroupOfCommand& group : groups_of(command)) {
    for (const Option* option : group.options) options.push_back(option_json(*option, group.title));
  }
  return {{"name", command.name},
          {"title", command.title},
          {"summary", command.summary},
          {"footer", command.footer},
          {"arguments", std::move(arguments)},
          {"options", std::move(options)}};
}

}  // namespace

std::string table_json_text() {
  Json all = Json::array();
  all.push_back(command_json(program_command()));
  for (const Command& command : all_commands()) all.push_back(command_json(command));
  return all.dump(1);
}

}  // namespace reshardfs
