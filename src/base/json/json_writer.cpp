// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_writer.h"

#include "reshardfs/error.h"

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

}  // namespace

std::string json_quoted(std::string_view text, JsonText form) {
  constexpr std::string_view kMeant = "\"\\\b\f\n\r\t";
  constexpr std::string_view kWritten = "\"\\bfnrt";
  const bool is_ascii = form == JsonText::kAscii || form == JsonText::kAsciiReplaced;
  const bool replaces = form == JsonText::kReplaced || form == JsonText::kAsciiReplaced;
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto [bytes, character] = utf8_character(text, at);
    if (bytes == 0 && replaces) {
      out += is_ascii ? "\\ufffd" : "\xef\xbf\xbd";
      at += broken_bytes(text, at);
      continue;
    }
    if (bytes == 0) {
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
  return out += '"';
}

void JsonWriter::key(std::string_view name) {
  const std::string quoted = json_quoted(name, style_.text);
  separate();
  text_ += quoted;
  text_ += style_.after_key;
  has_key_ = true;
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
