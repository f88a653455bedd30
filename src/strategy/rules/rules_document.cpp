// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules/rules_document.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/text/glob.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

bool continues_a_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The number at the start of `text`, and its digits; one that is too large is a large one.
std::optional<std::int64_t> leading_number(std::string_view text, std::size_t& digits) {
  digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0) return std::nullopt;
  return parse_number(text.substr(0, digits)).value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

const std::string* Rule::matching_glob(const std::string& name) const {
  const auto found = std::find_if(globs.begin(), globs.end(),
                                  [&](const std::string& glob) { return glob_match(glob, name); });
  return found == globs.end() ? nullptr : &*found;
}

std::optional<std::int64_t> LayerPlacement::layer_of(const std::string& name) const {
  for (std::size_t at = name.find(before); at != std::string::npos;
       at = name.find(before, at + 1)) {
    // "layers.{n}." must not find its way into "sublayers.3.".
    if (at > 0 && continues_a_word(name[at - 1]) && continues_a_word(before.front())) continue;
    const std::string_view rest = std::string_view(name).substr(at + before.size());
    std::size_t digits = 0;
    const std::optional<std::int64_t> number = leading_number(rest, digits);
    if (number && rest.substr(digits).starts_with(after)) return number;
  }
  return std::nullopt;
}

}  // namespace reshardfs
