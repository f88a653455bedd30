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

/// Characters that may be a scheme, whatever stands behind them.
std::size_t beginning_like_scheme(std::string_view text) noexcept {
  if (text.empty() || !is_letter(text.front())) return 0;
  const auto end = std::find_if_not(text.begin(), text.end(), is_in_scheme);
  return static_cast<std::size_t>(end - text.begin());
}

}  // namespace

std::size_t scheme_length(std::string_view text) noexcept {
  const std::size_t length = beginning_like_scheme(text);
  return text.substr(length).starts_with("://") ? length : 0;
}

std::optional<std::string> meant_url(std::string_view text) {
  const std::size_t length = beginning_like_scheme(text);
  const std::string_view rest = text.substr(length);
  if (length == 0 || !rest.starts_with(":/") || rest.starts_with("://")) return std::nullopt;
  return std::string(text.substr(0, length)) + ":/" + std::string(rest.substr(1));
}

bool is_url(const std::filesystem::path& path) noexcept {
  return scheme_length(path.native()) > 0;
}

std::filesystem::path normal_location(const std::filesystem::path& location) {
  return is_url(location) ? location : location.lexically_normal();
}

}  // namespace reshardfs
