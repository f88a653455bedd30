// SPDX-License-Identifier: Apache-2.0
#include "transport/url.h"

#include <cstdint>

#include "base/text/numbers.h"
#include "base/text/url_path.h"

namespace reshardfs {
namespace {

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int hexadecimal(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string url_encoded(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool plain = is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_' ||
                       c == '~' || (c == '/' && keep_slashes);
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<std::uint8_t>(c);
    out += '%';
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

std::string url_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool encoded = text[i] == '%' && i + 2 < text.size() && hexadecimal(text[i + 1]) >= 0 &&
                         hexadecimal(text[i + 2]) >= 0;
    if (!encoded) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(hexadecimal(text[i + 1]) * 16 + hexadecimal(text[i + 2]));
    i += 2;
  }
  return out;
}

UrlParts split_url(std::string_view text) {
  const std::size_t colon = scheme_length(text);
  UrlParts out;
  if (colon == 0) return out;
  const std::string_view scheme = text.substr(0, colon);
  for (const char c : scheme) out.scheme += lower(c);
  std::string_view rest = text.substr(colon + 3);
  if (const std::size_t fragment = rest.find('#'); fragment != std::string_view::npos) {
    // Only web servers' URLs have one; in a bucket it is a character like any other.
    if (out.scheme == "http" || out.scheme == "https") rest = rest.substr(0, fragment);
  }
  if (out.scheme == "http" || out.scheme == "https") {
    const std::size_t query = rest.find('?');
    if (query != std::string_view::npos) {
      out.query = rest.substr(query);
      rest = rest.substr(0, query);
    }
  }
  const std::size_t slash = rest.find('/');
  out.authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) out.path = rest.substr(slash);
  return out;
}

std::string origin_of(std::string_view url) {
  const UrlParts parts = split_url(url);
  std::string out = parts.scheme + "://";
  for (const char c : parts.authority) out += lower(c);
  return out;
}

}  // namespace reshardfs
