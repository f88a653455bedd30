// SPDX-License-Identifier: Apache-2.0
#include "check/words_diff.h"

#include <map>

#include "base/json/json_writer.h"

namespace reshardfs {
namespace {

/// Values as JSON, by key; of a key that differs within the set, an empty text.
std::map<std::string, std::string> values_of(const StatedWords& words) {
  std::map<std::string, std::string> values(words.index.begin(), words.index.end());
  for (const auto& [key, value] : words.header) {
    values.insert_or_assign(key, json_quoted(value, JsonText::kAscii));
  }
  for (const std::string& key : words.ambiguous) values.insert_or_assign(key, "");
  return values;
}

}  // namespace

WordsDiff diff_words(const StatedWords& a, const StatedWords& b) {
  const auto left = values_of(a);
  const auto right = values_of(b);
  const auto counts_alone = [](const std::string& key) { return key == kParameterCount; };
  WordsDiff diff;
  for (const auto& [key, value] : left) {
    const auto other = right.find(key);
    if (other == right.end()) {
      if (!counts_alone(key)) diff.only_in_a.push_back(key);
    } else if (value != other->second) {
      diff.different.push_back(key);
    }
  }
  for (const auto& [key, value] : right) {
    if (!left.contains(key) && !counts_alone(key)) diff.only_in_b.push_back(key);
  }
  return diff;
}

}  // namespace reshardfs
