// SPDX-License-Identifier: Apache-2.0
/// Parses whole numbers, independent of the locale. A number consists only of ASCII digits, without
/// blanks or a sign. A number that exceeds its type is invalid.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace reshardfs {

/// Whether it is an ASCII digit, independent of the locale.
constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Takes the number that the text begins with, up to the first character that is no digit.
/// @param base 8, 10 or 16, with small or capital letters and without "0x".
/// @return nothing, and takes nothing: the text begins with no digit, or the number is too large.
template <std::integral T>
std::optional<T> take_number(std::string_view& text, int base = 10) noexcept {
  if (text.starts_with('-')) return std::nullopt;  // which from_chars takes for part of a number
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The whole text as a number; nothing if it is not one.
template <std::integral T = std::int64_t>
std::optional<T> parse_number(std::string_view text, int base = 10) noexcept {
  const std::optional<T> number = take_number<T>(text, base);
  return text.empty() ? number : std::nullopt;
}

/// As parse_number(), but a '-' may stand before the digits.
inline std::optional<std::int64_t> parse_signed_number(std::string_view text) noexcept {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace reshardfs
