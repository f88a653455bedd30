// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_common.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"

namespace reshardfs {

std::string common_json(const std::map<std::string, CommonValue, std::less<>>& values) {
  nlohmann::ordered_json json;
  for (const std::string_view key : kCommonKeys) {
    nlohmann::ordered_json& value = json[std::string(key)];
    const auto found = values.find(key);
    if (found == values.end()) continue;
    std::visit([&](auto number) { value = number; }, found->second);
  }
  return json.dump(4);
}

bool is_common_json(const std::string& text) {
  try {
    JsonReader reader(text);
    reader.require(JsonKind::kObject);
    reader.enter();
    while (reader.next()) {
      if (std::find(kCommonKeys.begin(), kCommonKeys.end(), reader.key()) == kCommonKeys.end()) {
        return false;
      }
    }
    reader.finish();
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace reshardfs
