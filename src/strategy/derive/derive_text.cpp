// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "reshardfs/error.h"
#include "reshardfs/sizes.h"

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMaxSize = 1 << 20;

[[noreturn]] void fail(const std::string& text, const std::string& message) {
  throw Error(ErrorKind::kUsage, "'" + printable(text) + "': " + message)
      .hint("expected sizes as 'tp=8,dp=2,pp=1,opt=on', or ./NAME for a file of such a name");
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::optional<std::int64_t> number_in(std::string_view text, std::int64_t lowest) {
  const auto number = parse_number(text);
  return number && *number >= lowest && *number <= kMaxSize ? number : std::nullopt;
}

std::optional<std::int64_t> optimizer_in(std::string_view text) {
  if (text == "on" || text == "all") return -1;
  if (text == "off" || text == "none") return 0;
  const std::optional<std::int64_t> parts = number_in(text, 0);
  return parts == 1 ? 0 : parts;  // one part: not cut
}

std::string small_letters(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return text;
}

/// Where the value of a key belongs; nothing for a key that does not exist.
std::optional<std::int64_t>* place_of(std::string_view key, DerivedSizes& sizes) {
  if (key == "tp" || key == "mp") return &sizes.tensor;
  if (key == "dp") return &sizes.data;
  if (key == "ep") return &sizes.expert;
  if (key == "pp") return &sizes.pipeline;
  if (key == "opt" || key == "op") return &sizes.optimizer;
  return nullptr;
}

void parse_item(const std::string& text, std::string_view item, DerivedSizes& sizes) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) {
    fail(text, "'" + printable(std::string(item)) + "' has no '='");
  }
  const std::string key(trimmed(item.substr(0, equals)));
  const std::string value(trimmed(item.substr(equals + 1)));
  std::optional<std::int64_t>* place = place_of(key, sizes);
  if (place == nullptr) {
    if (place_of(small_letters(key), sizes) != nullptr) {
      throw Error(ErrorKind::kUsage,
                  "'" + printable(text) + "': '" + key + "' is written in small letters")
          .hint("did you mean '" + printable(small_letters(text)) + "'?");
    }
    fail(text, "'" + printable(key) + "' is unknown; use tp (or mp), dp, ep, pp, opt (or op)");
  }
  if (place->has_value()) fail(text, "'" + key + "' is given twice");
  const bool is_optimizer = place == &sizes.optimizer;
  *place = is_optimizer ? optimizer_in(value) : number_in(value, 1);
  if (place->has_value()) return;
  fail(text, key + " is '" + printable(value) + "', expected " +
                 (is_optimizer ? "on, off or a number of parts" : "a number from 1 to ") +
                 (is_optimizer ? "" : std::to_string(kMaxSize)));
}

}  // namespace

DerivedSizes parse_derivation(const std::string& text) {
  DerivedSizes sizes{.text = text};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parse_item(text, trimmed(std::string_view(text).substr(begin, end - begin)), sizes);
    begin = end + 1;
  }
  return sizes;
}

bool is_derivation(const std::string& text) {
  const std::size_t letters = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz "
                                                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                                       text.size());
  if (letters == 0 || letters == text.size() || text[letters] != '=') return false;
  if (text.find('/') != std::string::npos) return false;
  const std::filesystem::path extension = std::filesystem::path(text).extension();
  return extension != ".ckpt" && extension != ".json" && extension != ".toml";
}

}  // namespace reshardfs
