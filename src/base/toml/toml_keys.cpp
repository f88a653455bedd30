// SPDX-License-Identifier: Apache-2.0
#include "base/toml/toml_keys.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// Behind the comment or the text in quotes that `text` has at `begin`, which may go over lines if
/// its quotes are threefold; where it ends without being closed.
std::size_t end_of_opaque(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  if (quote == '#') return std::min(text.find('\n', begin), text.size());
  const std::string threefold(3, quote);
  const bool multiline = text.substr(begin).starts_with(threefold);
  for (std::size_t at = begin + (multiline ? 3 : 1); at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (!multiline && text[at] == '\n') {
      return at;  // an error, which the parser will find
    } else if (!multiline && text[at] == quote) {
      return at + 1;
    } else if (multiline && text.substr(at).starts_with(threefold)) {
      // Two more quotes may belong to the text.
      const std::size_t end = text.find_first_not_of(quote, at);
      return std::min({end, at + 5, text.size()});
    }
  }
  return text.size();
}

}  // namespace

void refuse_deep_toml_keys(std::string_view text) {
  std::size_t line = 1;
  std::size_t dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#' || c == '"' || c == '\'') {
      const std::size_t end = end_of_opaque(text, at);
      line += static_cast<std::size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                                  text.begin() + static_cast<std::ptrdiff_t>(end),
                                                  '\n'));
      at = end;
      continue;
    }
    if (c == '.') {
      if (++dots == kMaxTomlKeyParts) {
        throw Error(ErrorKind::kBadInput, "line " + std::to_string(line) + ": a key of more than " +
                                              std::to_string(kMaxTomlKeyParts) + " parts");
      }
    } else if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') {
      dots = 0;
    }
    ++at;
  }
}

}  // namespace reshardfs
