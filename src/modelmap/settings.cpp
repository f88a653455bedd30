// SPDX-License-Identifier: Apache-2.0
#include "modelmap/settings.h"

#include <string_view>

#include "base/text/numbers.h"

namespace reshardfs::modelmap {

std::optional<Release> Release::parse(const std::string& text) {
  constexpr std::size_t kMostParts = 4;
  constexpr std::int64_t kLargest = 1'000'000;
  Release release;
  std::string_view rest = text;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    const auto number = parse_number(part);
    if (!number || *number > kLargest) return std::nullopt;
    release.parts.push_back(*number);
    if (part.size() == rest.size()) break;
    if (release.parts.size() == kMostParts) return std::nullopt;
    rest.remove_prefix(part.size() + 1);
  }
  while (release.parts.size() > 1 && release.parts.back() == 0) release.parts.pop_back();
  return release;
}

std::string Release::text() const {
  std::string out;
  for (const std::int64_t part : parts) {
    out += (out.empty() ? "" : ".") + std::to_string(part);
  }
  return out;
}

std::optional<std::int64_t> Setting::default_of(const Release& release) const {
  std::optional<std::int64_t> value;
  for (const auto& [from, setting] : releases) {
    if (from <= release) value = setting;
  }
  return value;
}

}  // namespace reshardfs::modelmap
