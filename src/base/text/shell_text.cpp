// SPDX-License-Identifier: Apache-2.0
#include "base/text/shell_text.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/text/utf8.h"

namespace reshardfs {
namespace {

bool is_plain(char c) {
  constexpr std::string_view kOther = "_-./,:=@%+";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOther.find(c) != std::string_view::npos;
}

/// The bytes of the first character at `at` if it shows as itself; 0: it does not.
std::size_t shown_length(const std::string& text, std::size_t at) {
  const Utf8Character character = utf8_character(text, at);
  return character.bytes > 0 && is_printable(character.number) ? character.bytes : 0;
}

bool shows_as_itself(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = shown_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string escaped(const std::string& word) {
  std::string out = "$'";
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = shown_length(word, at);
    if (length == 0) {
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(word[at]));
      ++at;
      continue;
    }
    if (word[at] == '\\' || word[at] == '\'') out += '\\';
    out += word.substr(at, length);
    at += length;
  }
  return out + "'";
}

}  // namespace

std::string shell_word(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  if (!shows_as_itself(word)) return escaped(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += R"('\'')";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string path_word(const std::string& path) {
  return path.starts_with('-') ? "./" + path : path;
}

std::string command_line(const std::string& command, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& options) {
  std::string line = "reshardfs";
  if (!command.empty()) line += " " + command;
  for (const std::string& argument : arguments) {
    line += " " + shell_word(path_word(argument));
  }
  for (const std::string& option : options) line += " " + shell_word(option);
  return line;
}

std::string mount_line(const std::string& source, const std::string& mountpoint,
                       const std::vector<std::string>& options) {
  return shell_line({"mkdir", "-p", path_word(mountpoint)}) + " && " +
         command_line("mount", {source, mountpoint}, options);
}

}  // namespace reshardfs
