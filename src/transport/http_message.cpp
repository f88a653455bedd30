// SPDX-License-Identifier: Apache-2.0
#include "transport/http_message.h"

#include <algorithm>
#include <limits>

#include "base/text/numbers.h"

namespace reshardfs {
std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept {
  return parse_number<std::int64_t>(text);
}

const std::string* HttpHead::find(std::string_view name) const noexcept {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

std::string HttpHead::value(std::string_view name) const {
  const std::string* found = find(name);
  return found == nullptr ? "" : *found;
}

std::optional<std::uint64_t> HttpHead::number(std::string_view name) const noexcept {
  const std::string* found = find(name);
  return found == nullptr ? std::nullopt : parse_decimal(*found);
}

void HttpHead::add_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return;
  std::string name(trimmed(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  headers.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
}

std::optional<ContentRange> parse_content_range(std::string_view text) noexcept {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const std::size_t dash = text.find('-');
  const std::size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) {
    return std::nullopt;
  }
  const auto first = parse_decimal(text.substr(0, dash));
  const auto last = parse_decimal(text.substr(dash + 1, slash - dash - 1));
  const auto size = parse_decimal(text.substr(slash + 1));
  if (!first || !last || !size || *first > *last || *last >= *size) return std::nullopt;
  return ContentRange{*first, *last, *size};
}

bool is_strong_etag(std::string_view etag) noexcept {
  return etag.size() > 2 && etag.front() == '"' && etag.back() == '"';
}

}  // namespace reshardfs
