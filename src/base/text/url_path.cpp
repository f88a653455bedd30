// SPDX-License-Identifier: Apache-2.0
#include "base/text/url_path.h"

#include <algorithm>

namespace reshardfs {

namespace {

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_in_scheme(char c) noexcept {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

}  // namespace

std::size_t scheme_length(std::string_view text) noexcept {
  if (text.empty() || !is_letter(text.front())) return 0;
  const auto end = std::find_if_not(text.begin(), text.end(), is_in_scheme);
  const auto length = static_cast<std::size_t>(end - text.begin());
  return text.substr(length).starts_with("://") ? length : 0;
}

bool is_url(const std::filesystem::path& path) noexcept {
  return scheme_length(path.native()) > 0;
}

std::filesystem::path normal_location(const std::filesystem::path& location) {
  return is_url(location) ? location : location.lexically_normal();
}

}  // namespace reshardfs
