// SPDX-License-Identifier: Apache-2.0
#include "base/url_path.h"

#include <string>

namespace reshardfs {

bool is_url(const std::filesystem::path& path) noexcept {
  const std::string& text = path.native();
  const std::size_t colon = text.find(':');
  return colon != std::string::npos && colon > 0 && text.compare(colon, 3, "://") == 0 &&
         text.find('/') > colon;
}

std::filesystem::path normal_location(const std::filesystem::path& location) {
  return is_url(location) ? location : location.lexically_normal();
}

}  // namespace reshardfs
