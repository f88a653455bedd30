// SPDX-License-Identifier: Apache-2.0
#include "report/page_json.h"

#include <nlohmann/json.hpp>

namespace reshardfs {

std::string json_text(const std::string& text) {
  using Json = nlohmann::json;
  const std::string plain = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const char c : plain) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace reshardfs
