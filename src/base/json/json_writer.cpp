// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_writer.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "reshardfs/error.h"

#include "base/json/json_number.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

/// \uXXXX
void append_unit(std::string& out, char32_t unit) {
  out += "\\u";
  for (unsigned shift = 16; shift > 0; shift -= 4) out += kDigits[unit >> (shift - 4U) & 0xfU];
}

void append_escaped(std::string& out, char32_t character) {
  constexpr char32_t kBeyond = 0x10000;
  if (character < kBeyond) return append_unit(out, character);
  append_unit(out, 0xd800 + ((character - kBeyond) >> 10U));
  append_unit(out, 0xdc00 + ((character - kBeyond) & 0x3ffU));
}

/// How many bytes from `at` on begin a character, which they do not end: at least one.
std::size_t broken_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const unsigned first = byte(0);
  if (first < 0xc2 || first > 0xf4) return 1;
  const unsigned lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return 1;
  const bool third = first >= 0xf0 && byte(2) >= 0x80 && byte(2) <= 0xbf;
  return third ? 3 : 2;
}

/// Whether a byte stands for itself, whatever the form.
constexpr std::array<bool, 256> plain_bytes() {
  std::array<bool, 256> plain{};
  for (std::size_t byte = 0x20; byte < 0x7f; ++byte) plain[byte] = byte != '"' && byte != '\\';
  return plain;
}

/// Whether eight bytes stand for themselves. May say no where they do.
bool are_plain(std::uint64_t word) noexcept {
  constexpr std::uint64_t kEach = 0x0101010101010101U;
  constexpr std::uint64_t kHighBits = 0x80 * kEach;
  // The highest bit of each byte that is less than a number of at most 0x80.
  const auto less = [&](std::uint64_t bytes, std::uint64_t number) {
    return (bytes - number * kEach) & ~bytes & kHighBits;
  };
  const std::uint64_t found = word | less(word, 0x20) | less(word ^ '"' * kEach, 1) |
                              less(word ^ '\\' * kEach, 1) | less(word ^ 0x7f * kEach, 1);
  return (found & kHighBits) == 0;
}

bool replaces(JsonText form) noexcept {
  return form == JsonText::kReplaced || form == JsonText::kAsciiReplaced;
}

/// The first byte from `at` on that needs a closer look: names have none, nearly always.
std::size_t end_of_plain(std::string_view text, std::size_t at) noexcept {
  static constexpr std::array<bool, 256> kStandsForItself = plain_bytes();
  std::uint64_t word = 0;
  for (; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if (!are_plain(word)) break;
  }
  while (at < text.size() && kStandsForItself[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

}  // namespace

void append_json_quoted(std::string& out, std::string_view text, JsonText form) {
  constexpr std::string_view kMeant = "\"\\\b\f\n\r\t";
  constexpr std::string_view kWritten = "\"\\bfnrt";
  const bool is_ascii = form == JsonText::kAscii || form == JsonText::kAsciiReplaced;
  const std::size_t before = out.size();
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t plain_end = end_of_plain(text, at);
    out.append(text, at, plain_end - at);
    at = plain_end;
    if (at == text.size()) break;
    const auto [bytes, character] = utf8_character(text, at);
    if (bytes == 0 && replaces(form)) {
      out += is_ascii ? "\\ufffd" : "\xef\xbf\xbd";
      at += broken_bytes(text, at);
      continue;
    }
    if (bytes == 0) {
      out.resize(before);
      throw Error(ErrorKind::kUnsupported,
                  "'" + printable(std::string(text)) + "' is not UTF-8, and cannot stand in JSON");
    }
    const std::size_t known = bytes == 1 ? kMeant.find(text[at]) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out += '\\';
      out += kWritten[known];
    } else if (character < 0x20 || (is_ascii && character >= 0x7f)) {
      append_escaped(out, character);
    } else {
      out += text.substr(at, bytes);
    }
    at += bytes;
  }
  out += '"';
}

std::string json_quoted(std::string_view text, JsonText form) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_quoted(out, text, form);
  return out;
}

std::size_t json_quoted_bytes(std::string_view text, JsonText form) {
  if (end_of_plain(text, 0) == text.size()) return text.size() + 2;
  return json_quoted(text, form).size();
}

/// A failed value must not leave a separator behind.
void JsonWriter::put_quoted(std::string_view text) {
  if (!replaces(style_.text)) return put(json_quoted(text, style_.text));
  separate();
  append_json_quoted(text_, text, style_.text);
}

void JsonWriter::key(std::string_view name) {
  put_quoted(name);
  text_ += style_.after_key;
  has_key_ = true;
}

void JsonWriter::real(double value) {
  put(json_number_text(value));
}

void JsonWriter::put(std::string_view value) {
  separate();
  text_ += value;
}

void JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  ++level_;
  is_first_ = true;
}

void JsonWriter::close(char bracket) {
  --level_;
  if (!is_first_) new_line();
  text_ += bracket;
  is_first_ = false;
}

void JsonWriter::separate() {
  if (has_key_) {
    has_key_ = false;
    return;
  }
  if (!is_first_) text_ += style_.between;
  if (!text_.empty()) new_line();
  is_first_ = false;
}

void JsonWriter::new_line() {
  if (style_.indent == 0) return;
  text_ += '\n';
  text_.append(level_ * style_.indent, ' ');
}

}  // namespace reshardfs
