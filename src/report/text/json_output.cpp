// SPDX-License-Identifier: Apache-2.0
#include "report/text/json_output.h"

#include <iostream>

#include <nlohmann/json.hpp>

namespace reshardfs {

void write_json(const nlohmann::ordered_json& json) {
  constexpr int kIndent = 2;
  std::cout << json.dump(kIndent, ' ', /*ensure_ascii=*/true,
                         nlohmann::json::error_handler_t::replace)
            << '\n';
}

nlohmann::ordered_json completeness_json(const Completeness& completeness) {
  nlohmann::ordered_json missing = nlohmann::ordered_json::array();
  for (const auto* errors : {&completeness.missing, &completeness.short_parameters}) {
    for (const Error& error : *errors) missing.push_back(error.what());
  }
  nlohmann::ordered_json open = nlohmann::ordered_json::array();
  for (const OpenShape& extent : completeness.open_extents) {
    open.push_back({{"name", extent.name}, {"shape", extent.shape}});
  }
  nlohmann::ordered_json json;
  json["stated"] = missing.empty() && completeness.unstated.empty();
  json["by"] = completeness.grounds;
  json["missing"] = std::move(missing);
  json["unstated"] = nullptr;
  if (!completeness.unstated.empty()) json["unstated"] = completeness.unstated;
  json["open_extents"] = std::move(open);
  return json;
}

}  // namespace reshardfs
