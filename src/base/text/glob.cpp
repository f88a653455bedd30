// SPDX-License-Identifier: Apache-2.0
#include "base/text/glob.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text/state_names.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

struct Letter {
  char32_t number = 0;
  std::size_t end = 0;  ///< behind it
};

Letter letter_at(std::string_view text, std::size_t at) noexcept {
  constexpr char32_t kBytes = 0x110000;  // behind all of Unicode
  const Utf8Character found = utf8_character(text, at);
  if (found.bytes > 0) return {found.number, at + found.bytes};
  return {kBytes + static_cast<unsigned char>(text[at]), at + 1};
}

/// The letter there, or the one behind a backslash. @return nothing at the end.
std::optional<Letter> literal_at(std::string_view pattern, std::size_t at) noexcept {
  if (at < pattern.size() && pattern[at] == '\\') ++at;
  if (at >= pattern.size()) return std::nullopt;
  return letter_at(pattern, at);
}

/// POSIX's classes in ASCII: the first and the last letter of each range.
using namespace std::string_view_literals;
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kClasses{{
    {"[:alnum:]", "09AZaz"},
    {"[:alpha:]", "AZaz"},
    {"[:blank:]", "  \t\t"},
    {"[:cntrl:]", "\0\x1f\x7f\x7f"sv},
    {"[:digit:]", "09"},
    {"[:graph:]", "!~"},
    {"[:lower:]", "az"},
    {"[:print:]", " ~"},
    {"[:punct:]", "!/:@[`{~"},
    {"[:space:]", "\t\r  "},
    {"[:upper:]", "AZ"},
    {"[:xdigit:]", "09AFaf"},
}};

bool is_in_class(std::string_view ranges, char32_t number) noexcept {
  for (std::size_t i = 0; i < ranges.size(); i += 2) {
    if (static_cast<char32_t>(ranges[i]) <= number &&
        number <= static_cast<char32_t>(ranges[i + 1])) {
      return true;
    }
  }
  return false;
}

struct Match {
  bool matches = false;
  std::size_t end = 0;  ///< behind what was compared, in the pattern
};

/// @return with `end` at `at` if the set has no end.
Match match_set(std::string_view pattern, std::size_t at, char32_t number) noexcept {
  std::size_t next = at + 1;
  const bool of_others = next < pattern.size() && (pattern[next] == '!' || pattern[next] == '^');
  if (of_others) ++next;
  const std::size_t first = next;
  bool found = false;
  while (next < pattern.size()) {
    if (pattern[next] == ']' && next > first) return {found != of_others, next + 1};
    const auto* known = std::find_if(kClasses.begin(), kClasses.end(), [&](const auto& item) {
      return pattern.substr(next).starts_with(item.first);
    });
    if (known != kClasses.end()) {
      found = found || is_in_class(known->second, number);
      next += known->first.size();
      continue;
    }
    const auto low = literal_at(pattern, next);
    if (!low) break;
    auto high = low;
    if (pattern.substr(low->end).starts_with('-') && !pattern.substr(low->end).starts_with("-]")) {
      high = literal_at(pattern, low->end + 1);
      if (!high) break;
    }
    found = found || (low->number <= number && number <= high->number);
    next = high->end;
  }
  return {false, at};
}

/// Compares one letter with what stands at `at`, which is no star.
/// @param unended of the first '[' without an end, as far as is known: none behind it has one.
Match match_one(std::string_view pattern, std::size_t at, char32_t number,
                std::size_t& unended) noexcept {
  if (pattern[at] == '?') return {true, at + 1};
  if (pattern[at] == '[' && at < unended) {
    const Match match = match_set(pattern, at, number);
    if (match.end > at) return match;
    unended = at;
  }
  const auto literal = literal_at(pattern, at);
  if (!literal) return {};
  return {literal->number == number, literal->end};
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) noexcept {
  // What lies before the last star has matched as early as it can, so that no other way to match
  // it leaves more for what comes behind.
  std::size_t in_pattern = 0;
  std::size_t in_text = 0;
  std::size_t behind_star = std::string_view::npos;
  std::size_t unended = std::string_view::npos;
  std::size_t under_star = 0;  // the end of what the last star has taken
  while (in_text < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      behind_star = ++in_pattern;
      under_star = in_text;
      continue;
    }
    const Letter letter = letter_at(text, in_text);
    const Match match = in_pattern < pattern.size()
                            ? match_one(pattern, in_pattern, letter.number, unended)
                            : Match{};
    if (match.matches) {
      in_pattern = match.end;
      in_text = letter.end;
    } else if (behind_star != std::string_view::npos) {
      in_pattern = behind_star;
      in_text = under_star = letter_at(text, under_star).end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

std::size_t glob_set_end(std::string_view pattern, std::size_t at) noexcept {
  return match_set(pattern, at, 0).end;
}

std::string glob_of(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

bool matches_any(const NameGlobs& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_match(glob, name); });
}

bool NameFilter::takes(const std::string& name) const {
  if (weights_only && is_training_state(name, state_prefixes)) return false;
  return (include.empty() || matches_any(include, name)) && !matches_any(exclude, name);
}

}  // namespace reshardfs
