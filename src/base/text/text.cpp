// SPDX-License-Identifier: Apache-2.0
#include "base/text/text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/utf8.h"

namespace reshardfs {
namespace {

struct Character {
  std::size_t bytes = 1;
  std::size_t columns = 1;
};

/// What is no UTF-8 counts byte by byte.
Character character_at(std::string_view text, std::size_t at) {
  const Utf8Character character = utf8_character(text, at);
  if (character.bytes == 0) return {};
  return {character.bytes, columns_of(character.number)};
}

/// Bytes of the longest beginning that takes at most `columns`.
std::size_t fitting_bytes(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t used = 0; at < text.size();) {
    const Character character = character_at(text, at);
    used += character.columns;
    if (used > columns) break;
    at += character.bytes;
  }
  return at;
}

}  // namespace

std::size_t text_width(const std::string& text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    width += character.columns;
    at += character.bytes;
  }
  return width;
}

std::string shortened(const std::string& text, std::size_t columns) {
  constexpr std::size_t kEllipsis = 3;
  const std::size_t width = text_width(text);
  if (width <= columns || columns <= kEllipsis) return text;
  // The end says more: layers of a model begin alike.
  const std::size_t tail = (columns - kEllipsis + 1) / 2;
  const std::size_t head = columns - kEllipsis - tail;
  std::size_t last = 0;
  for (std::size_t left = width; left > tail;) {
    const Character character = character_at(text, last);
    left -= character.columns;
    last += character.bytes;
  }
  return text.substr(0, fitting_bytes(text, head)) + "..." + text.substr(last);
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

std::string name_list(const std::vector<std::string>& names, std::size_t shown) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) {
    if (i > 0) text += ", ";
    text += "'" + printable(names[i]) + "'";
  }
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

std::string counted(std::size_t count, const std::string& singular) {
  return std::to_string(count) + " " + singular + (count == 1 ? "" : "s");
}

std::string utc_now() {
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  return utc_time(now.count());
}

std::vector<std::string> wrapped_lines(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && text_width(line) + 1 + text_width(word) > columns) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string utc_time(std::int64_t ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::time_t seconds = ns / kSecond - (ns % kSecond < 0 ? 1 : 0);
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "?";
  std::array<char, 40> out{};
  const std::size_t length = std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {out.data(), length};
}

}  // namespace reshardfs
