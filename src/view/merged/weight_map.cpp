// SPDX-License-Identifier: Apache-2.0
#include "view/merged/weight_map.h"

#include <utility>

#include "base/json/json_writer.h"

namespace reshardfs {
WeightMap::WeightMap(std::uint64_t total_size, std::size_t indent) : indent_(indent) {
  text_ = "{" + line(1) + "\"metadata\": {" + line(2) +
          "\"total_size\": " + std::to_string(total_size) + line(1) + "}," + line(1) +
          "\"weight_map\": {";
}

void WeightMap::add(const std::string& parameter, const std::string& file) {
  text_ += (empty_ ? "" : ",") + line(2) + json_quoted(parameter, JsonText::kAscii) + ": " +
           json_quoted(file, JsonText::kAscii);
  empty_ = false;
}

std::string WeightMap::finish() && {
  text_ += line(1) + "}" + line(0) + "}";
  return std::move(text_);
}

/// A new line, and its indent.
std::string WeightMap::line(std::size_t level) const {
  return "\n" + std::string(level * indent_, ' ');
}

}  // namespace reshardfs
