// SPDX-License-Identifier: Apache-2.0
#include "report/text/json_output.h"

#include <iostream>

namespace reshardfs {

std::string json_text(const std::function<void(JsonWriter&)>& write_members) {
  JsonWriter json({.after_key = ": ", .indent = 2, .text = JsonText::kAsciiReplaced});
  json.open_object();
  write_members(json);
  json.close_object();
  return json.take();
}

void write_json(const std::function<void(JsonWriter&)>& write_members) {
  std::cout << json_text(write_members) << '\n';
}

void write_completeness(JsonWriter& json, const Completeness& completeness) {
  json.open_object("completeness");
  json.member("stated", completeness.missing.empty() && completeness.short_parameters.empty() &&
                            completeness.unstated.empty());
  json.texts("by", completeness.grounds);
  json.open_list("missing");
  for (const auto* errors : {&completeness.missing, &completeness.short_parameters}) {
    for (const Error& error : *errors) json.text(error.what());
  }
  json.close_list();
  json.member_or_null("unstated", completeness.unstated);
  json.objects("open_extents", completeness.open_extents, [&](const OpenShape& extent) {
    json.member("name", extent.name);
    json.numbers("shape", extent.shape);
  });
  json.close_object();
}

}  // namespace reshardfs
