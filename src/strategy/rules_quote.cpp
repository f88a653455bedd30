// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules_quote.h"

#include <algorithm>
#include <string_view>

namespace reshardfs {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == '\x7F';
}

std::string escaped(char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (c == '"' || c == '\\') return std::string("\\") + c;
  if (!is_control(c)) return std::string(1, c);
  const auto byte = static_cast<unsigned char>(c);
  return std::string("\\u00") + kDigits[byte >> 4U] + kDigits[byte & 0xFU];
}

}  // namespace

std::string quoted(const std::string& text) {
  const bool has_backslash = text.find('\\') != std::string::npos;
  const bool is_literal =
      text.find('\'') == std::string::npos && std::none_of(text.begin(), text.end(), is_control);
  // Globs with escapes are easier to read without escapes of their escapes.
  if (has_backslash && is_literal) return "'" + text + "'";
  std::string out = "\"";
  for (const char c : text) out += escaped(c);
  return out + "\"";
}

std::string number_list(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> values;
  values.reserve(numbers.size());
  for (const std::int64_t number : numbers) values.push_back(std::to_string(number));
  return value_list(values);
}

std::string value_list(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + value;
  return "[" + out + "]";
}

}  // namespace reshardfs
