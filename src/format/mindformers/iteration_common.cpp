// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_common.h"

#include <algorithm>

#include <nlohmann/json.hpp>

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
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  return std::all_of(json.items().begin(), json.items().end(), [](const auto& member) {
    return std::find(kCommonKeys.begin(), kCommonKeys.end(), member.key()) != kCommonKeys.end();
  });
}

}  // namespace reshardfs
