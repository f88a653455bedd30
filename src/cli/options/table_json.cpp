// SPDX-License-Identifier: Apache-2.0
#include "cli/options/table_json.h"

#include <string>

#include "base/json/json_writer.h"
#include "cli/options/table.h"

namespace reshardfs {
namespace {

void write_option(JsonWriter& json, const Option& option, const std::string& group) {
  json.open_object();
  json.member("name", option.name);
  json.member("letter", option.letter == 0 ? "" : std::string{option.letter});
  json.member("flag", option.is_flag());
  json.member("number", option.takes == Takes::kNumber);
  json.member("repeatable", option.is_repeatable());
  json.member("list", option.takes == Takes::kList);
  json.member("type", option.type);
  json.texts("choices", option.choices);
  json.member("default", option.fallback);
  json.member("required", option.required);
  json.texts("excludes", option.excludes);
  json.member("group", group);
  json.member("help", option.help);
  json.close_object();
}

void write_command(JsonWriter& json, const Command& command) {
  json.open_object();
  json.member("name", command.name);
  json.member("title", command.title);
  json.member("summary", command.summary);
  json.member("footer", command.footer);
  json.objects("arguments", command.arguments, [&](const Argument& argument) {
    json.member("name", argument.name);
    json.member("required", argument.required);
    json.member("many", argument.many);
    json.member("help", argument.help);
  });
  json.open_list("options");
  for (const GroupOfCommand& group : groups_of(command)) {
    for (const Option* option : group.options) write_option(json, *option, group.title);
  }
  json.close_list();
  json.close_object();
}

}  // namespace

std::string table_json_text() {
  JsonWriter json({.after_key = ": ", .indent = 1});
  json.open_list();
  write_command(json, program_command());
  for (const Command& command : all_commands()) write_command(json, command);
  json.close_list();
  return json.take();
}

}  // namespace reshardfs
