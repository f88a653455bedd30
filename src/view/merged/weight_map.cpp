// SPDX-License-Identifier: Apache-2.0
#include "view/merged/weight_map.h"

#include <utility>

#include "base/json/json_writer.h"

namespace reshardfs {
WeightMap::WeightMap(std::uint64_t total_size, std::size_t indent, bool counts_only,
                     const std::vector<std::pair<std::string, std::string>>& more)
    : indent_(indent), entry_line_(line(2)), counts_only_(counts_only) {
  text_ =
      "{" + line(1) + "\"metadata\": {" + line(2) + "\"total_size\": " + std::to_string(total_size);
  for (const auto& [key, value] : more) {
    text_ += "," + line(2) + json_quoted(key, JsonText::kAscii) + ": " + value;
  }
  text_ += line(1) + "}," + line(1) + "\"weight_map\": {";
}

void WeightMap::add(const std::string& parameter, const std::string& file) {
  if (counts_only_) {
    constexpr std::string_view kBetween = ": ";
    counted_ += (empty_ ? 0 : 1) + entry_line_.size() + kBetween.size() +
                json_quoted_bytes(parameter, JsonText::kAscii) +
                json_quoted_bytes(file, JsonText::kAscii);
    empty_ = false;
    return;
  }
  if (!empty_) text_ += ',';
  text_ += entry_line_;
  append_json_quoted(text_, parameter, JsonText::kAscii);
  text_ += ": ";
  append_json_quoted(text_, file, JsonText::kAscii);
  empty_ = false;
}

void WeightMap::finish_text() {
  text_ += line(1) + "}" + line(0) + "}";
}

std::string WeightMap::finish() && {
  finish_text();
  return std::move(text_);
}

std::uint64_t WeightMap::finished_bytes() && {
  finish_text();
  return text_.size() + counted_;
}

/// A new line, and its indent.
std::string WeightMap::line(std::size_t level) const {
  return "\n" + std::string(level * indent_, ' ');
}

}  // namespace reshardfs
