// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_common.h"

#include <algorithm>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "base/json/json_writer.h"

namespace reshardfs {

std::string common_json(const std::map<std::string, CommonValue, std::less<>>& values) {
  JsonWriter json({.after_key = ": ", .indent = 4});
  json.open_object();
  for (const std::string_view key : kCommonKeys) {
    const auto found = values.find(key);
    if (found == values.end()) {
      json.null_member(key);
    } else {
      std::visit([&](auto number) { json.member(key, number); }, found->second);
    }
  }
  json.close_object();
  return json.take();
}

bool is_common_json(const std::string& text) {
  try {
    JsonReader reader(text);
    reader.require(JsonKind::kObject);
    reader.enter();
    while (reader.next()) {
      const bool is_known =
          reader.key() == kIgnoredCommonKey ||
          std::find(kCommonKeys.begin(), kCommonKeys.end(), reader.key()) != kCommonKeys.end();
      if (!is_known) return false;
    }
    reader.finish();
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace reshardfs
