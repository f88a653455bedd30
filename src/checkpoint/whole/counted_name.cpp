// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/counted_name.h"

#include <algorithm>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

/// So that it is a number in 64 bits.
constexpr std::size_t kMostDigits = 18;

std::int64_t number_of(std::string_view digits) {
  return parse_number(digits).value();
}

std::optional<CountedName> parse_at(std::string_view name, std::size_t word) {
  constexpr std::size_t kWordLength = 4;  // of "-of-"
  std::size_t begin = word;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  std::size_t end = word + kWordLength;
  while (end < name.size() && is_digit(name[end])) ++end;
  const std::string_view number = name.substr(begin, word - begin);
  const std::string_view count = name.substr(word + kWordLength, end - word - kWordLength);
  const bool is_counted = !number.empty() && number.size() <= kMostDigits && !count.empty() &&
                          count.size() <= kMostDigits && (end == name.size() || name[end] == '.');
  if (!is_counted) return std::nullopt;
  CountedName parsed{std::string(name.substr(0, begin)), std::string(number),
                     std::string(name.substr(word)), number_of(number), number_of(count)};
  if (parsed.count < 1 || parsed.index > parsed.count) return std::nullopt;
  return parsed;
}

}  // namespace

std::string CountedName::with_index(std::int64_t other) const {
  std::string digits = std::to_string(other);
  if (digits.size() < number.size()) digits.insert(0, number.size() - digits.size(), '0');
  return before + digits + after;
}

std::optional<CountedName> parse_counted_name(std::string_view file_name) {
  for (const std::string_view word : {"-of-", "_of_"}) {
    const std::size_t at = file_name.rfind(word);
    if (at == std::string_view::npos) continue;
    if (auto parsed = parse_at(file_name, at)) return parsed;
  }
  return std::nullopt;
}

}  // namespace reshardfs
