// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_number.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include <nlohmann/json.hpp>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

bool take(std::string_view& text, char byte) noexcept {
  if (!text.starts_with(byte)) return false;
  text.remove_prefix(1);
  return true;
}

std::string_view take_digits(std::string_view& text) noexcept {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

struct NumberParts {
  std::string_view whole;
  std::string_view fraction;
  std::string_view exponent;
  bool exponent_is_negative = false;
  bool is_good = false;
};

NumberParts parts_of(std::string_view text) noexcept {
  NumberParts parts;
  take(text, '-');
  parts.whole = take_digits(text);
  if (parts.whole.empty() || (parts.whole.size() > 1 && parts.whole.front() == '0')) return parts;
  if (take(text, '.')) {
    parts.fraction = take_digits(text);
    if (parts.fraction.empty()) return parts;
  }
  if (take(text, 'e') || take(text, 'E')) {
    parts.exponent_is_negative = text.starts_with('-');
    if (!take(text, '-')) take(text, '+');
    parts.exponent = take_digits(text);
    if (parts.exponent.empty()) return parts;
  }
  parts.is_good = text.empty();
  return parts;
}

/// Of a number that a double cannot have: whether it is too large, and not too small.
bool is_huge(const NumberParts& parts) noexcept {
  constexpr std::int64_t kMost = 1LL << 40;  // larger than any text
  const std::size_t first = parts.fraction.find_first_not_of('0');
  const auto digits = static_cast<std::int64_t>(parts.whole != "0" ? parts.whole.size()
                                                : first == std::string_view::npos ? 0
                                                                                  : first);
  const std::int64_t magnitude = parts.whole != "0" ? digits : -digits;
  const std::int64_t exponent =
      parts.exponent.empty() ? 0 : parse_number(parts.exponent).value_or(kMost);
  return (parts.exponent_is_negative ? -exponent : exponent) > -magnitude;
}

}  // namespace

bool is_json_number(std::string_view text) noexcept {
  // Below that any number of digits fits.
  constexpr std::size_t kAlwaysFit = 300;
  const NumberParts parts = parts_of(text);
  if (!parts.is_good) return false;
  if (parts.exponent.empty() && parts.whole.size() <= kAlwaysFit) return true;
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() ? std::isfinite(value) : !is_huge(parts);
}

std::string json_number_text(double value) {
  // A number alone: to destroy it takes no memory, as it would for a list or an object.
  return nlohmann::json(value).dump();
}

}  // namespace reshardfs
