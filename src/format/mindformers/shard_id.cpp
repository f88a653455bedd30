// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/shard_id.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text/numbers.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

/// Takes the escape that `text` begins with, without its backslash.
bool take_escape(std::string_view& text, std::string& out) {
  if (text.empty()) return false;
  const char kind = text.front();
  text.remove_prefix(1);
  constexpr std::string_view kPlain = "\\'\"nrt";
  constexpr std::string_view kMeans = "\\'\"\n\r\t";
  if (const auto at = kPlain.find(kind); at != std::string_view::npos) {
    out += kMeans[at];
    return true;
  }
  const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0 || text.size() < digits) return false;
  const auto code = parse_number<std::uint32_t>(text.substr(0, digits), 16);
  text.remove_prefix(digits);
  return code && append_utf8(out, *code);
}

/// What a Python literal in quotes stands for.
std::optional<std::string> unquoted(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != literal.back()) return std::nullopt;
  const char quote = literal.front();
  if (quote != '\'' && quote != '"') return std::nullopt;
  std::string_view text = literal.substr(1, literal.size() - 2);
  std::string out;
  while (true) {
    const std::size_t plain = std::min(text.find_first_of("\\'\""), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const char special = text.front();
    text.remove_prefix(1);
    if (special == quote) return std::nullopt;
    if (special != '\\') {
      out += special;
    } else if (!take_escape(text, out)) {
      return std::nullopt;
    }
  }
  // Python takes the other quote only where that spares it escapes.
  const bool has_single = out.find('\'') != std::string::npos;
  const bool has_double = out.find('"') != std::string::npos;
  if ((quote == '"') != (has_single && !has_double)) return std::nullopt;
  return out;
}

std::optional<std::uint64_t> number(std::string_view digits) {
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  return parse_number<std::uint64_t>(digits);
}

/// "3," or "3, 4": what stands between the parentheses of a tuple that is not empty.
std::optional<std::vector<std::uint64_t>> tuple_of(std::string_view text) {
  constexpr std::string_view kSeparator = ", ";
  constexpr std::size_t kMostNumbers = 16;
  if (text.ends_with(',')) {
    const auto only = number(text.substr(0, text.size() - 1));
    if (!only) return std::nullopt;
    return std::vector{*only};
  }
  std::vector<std::uint64_t> numbers;
  for (bool last = false; !last; text.remove_prefix(last ? 0 : kSeparator.size())) {
    const std::size_t end = text.find(kSeparator);
    last = end == std::string_view::npos;
    const auto next = number(text.substr(0, end));
    if (!next || numbers.size() == kMostNumbers) return std::nullopt;
    numbers.push_back(*next);
    if (!last) text.remove_prefix(end);
  }
  if (numbers.size() < 2) return std::nullopt;  // one alone has a comma behind it
  return numbers;
}

/// As Python's repr() has it.
void append_escaped(std::string& out, char32_t character, std::string_view bytes, char quote) {
  constexpr std::string_view kNamed = "\n\r\t";
  constexpr std::string_view kNames = "nrt";
  if (bytes == std::string_view(&quote, 1) || bytes == "\\") {
    out += '\\';
    out += bytes;
  } else if (is_printable(character)) {
    out += bytes;
  } else if (const auto at = kNamed.find(bytes); at != std::string_view::npos) {
    out += '\\';
    out += kNames[at];
  } else {
    const auto number = static_cast<std::uint32_t>(character);
    out += number < 0x100     ? fmt::format("\\x{:02x}", number)
           : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                              : fmt::format("\\U{:08x}", number);
  }
}

}  // namespace

std::string shard_id_head(std::string_view name) {
  const bool has_single = name.find('\'') != std::string_view::npos;
  const bool has_double = name.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out = "(";
  out += quote;
  for (std::size_t at = 0; at < name.size();) {
    const Utf8Character character = utf8_character(name, at);
    append_escaped(out, character.number, name.substr(at, character.bytes), quote);
    at += std::max<std::size_t>(character.bytes, 1);
  }
  out += quote;
  return out + ", (";
}

std::optional<ShardId> parse_shard_id(std::string_view text) {
  constexpr std::string_view kBetween = ", (";
  if (!text.starts_with('(') || !text.ends_with("))")) return std::nullopt;
  text = text.substr(1, text.size() - 3);
  // The name may hold anything; the numbers behind it do not.
  const std::size_t at = text.rfind(kBetween);
  if (at == std::string_view::npos) return std::nullopt;
  auto name = unquoted(text.substr(0, at));
  auto numbers = tuple_of(text.substr(at + kBetween.size()));
  if (!name || name->empty() || !numbers) return std::nullopt;
  return ShardId{std::move(*name), std::move(*numbers)};
}

}  // namespace reshardfs
