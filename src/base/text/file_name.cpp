// SPDX-License-Identifier: Apache-2.0
#include "base/text/file_name.h"

#include <algorithm>

#include "reshardfs/error.h"

#include "base/text/utf8.h"

namespace reshardfs {
namespace {

/// Leaves room for an extension and the suffix of a temporary file in the 255 bytes of a name.
constexpr std::size_t kComponentBytes = 200;
/// Ends a component that goes on in the next one. Nothing else has a `+` after a `%`.
constexpr std::string_view kGoesOn = "%+";
constexpr std::string_view kHexDigits = "0123456789ABCDEF";
constexpr std::size_t kEscapeBytes = 3;

void append_escaped(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  out += '%';
  out += kHexDigits[byte >> 4U];
  out += kHexDigits[byte & 0xfU];
}

/// Bytes of the character at `at` if it may stand in a path as it is, else 0.
std::size_t plain_length(std::string_view text, std::size_t at) {
  const auto [length, character] = utf8_character(text, at);
  return character == '%' || character == '/' || is_control(character) ? 0 : length;
}

std::string escaped(std::string_view raw, bool is_directory) {
  if (raw == ".") return "%2E";
  if (raw == "..") return "%2E%2E";
  std::string out;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t length = plain_length(raw, at);
    if (length == 0) {
      append_escaped(out, raw[at++]);
    } else {
      out += raw.substr(at, length);
      at += length;
    }
  }
  if (is_directory && out.ends_with(kParameterFileExtension)) {
    out.replace(out.size() - kParameterFileExtension.size(), 1, "%2E");
  }
  return out;
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80;
}

/// Where an escaped text that is too long is cut: inside no character and no escape.
std::size_t cut_of(std::string_view text) {
  std::size_t cut = kComponentBytes - kGoesOn.size();
  while (continues_character(text[cut])) --cut;
  for (std::size_t back = 1; back < kEscapeBytes; ++back) {
    if (text[cut - back] == '%') return cut - back;
  }
  return cut;
}

void append_component(std::string& path, std::string_view raw, bool is_directory) {
  const std::string text = escaped(raw, is_directory);
  std::string_view rest = text;
  while (rest.size() > kComponentBytes) {
    const std::size_t cut = cut_of(rest);
    path.append(rest.substr(0, cut)).append(kGoesOn) += '/';
    rest.remove_prefix(cut);
  }
  path += rest;
}

/// The value of an upper-case hexadecimal digit.
std::optional<unsigned> hex_value(char c) {
  const std::size_t value = kHexDigits.find(c);
  if (value == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned>(value);
}

std::optional<std::string> decoded(std::string_view path) {
  std::string name;
  for (std::size_t at = 0; at < path.size();) {
    if (path[at] != '%') {
      name += path[at++];
      continue;
    }
    if (path.size() - at < kEscapeBytes) return std::nullopt;
    if (path.substr(at, kGoesOn.size()) == kGoesOn) {
      if (path[at + kGoesOn.size()] != '/') return std::nullopt;
    } else {
      const auto high = hex_value(path[at + 1]);
      const auto low = hex_value(path[at + 2]);
      if (!high || !low) return std::nullopt;
      name += static_cast<char>(static_cast<unsigned char>(*high << 4U | *low));
    }
    at += kEscapeBytes;
  }
  return name;
}

/// Whether nothing in the name needs a closer look.
bool is_own_path(std::string_view name) {
  const auto is_plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x7f && c != '%' && c != '/';
  };
  return name.size() <= kComponentBytes && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_plain);
}

}  // namespace

std::string to_file_path(std::string_view name) {
  if (name.empty()) throw Error(ErrorKind::kInternal, "an empty name has no path");
  if (is_own_path(name)) return std::string(name);
  std::string path;
  std::size_t begin = 0;
  // A slash right after another, the first and the last one separate nothing: they are part of a
  // component.
  for (std::size_t at = 1; at + 1 < name.size(); ++at) {
    if (name[at] != '/' || at == begin) continue;
    append_component(path, name.substr(begin, at - begin), true);
    path += '/';
    begin = at + 1;
  }
  append_component(path, name.substr(begin), false);
  return path;
}

std::optional<std::string> from_file_path(std::string_view path) {
  std::optional<std::string> name = decoded(path);
  // Decoding forgives what is never written: "%61" for "a", empty components.
  if (!name || name->empty() || to_file_path(*name) != path) return std::nullopt;
  return name;
}

bool is_plain_file_name(std::string_view name) noexcept {
  constexpr std::string_view kNeverInside("/\0", 2);
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(kNeverInside) == std::string_view::npos;
}

std::filesystem::path without_trailing_slash(const std::filesystem::path& path) {
  return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

}  // namespace reshardfs
