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

}  // namespace reshardfs
