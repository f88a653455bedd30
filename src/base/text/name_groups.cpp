// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text/numbers.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostDigits = 18;

/// A name as the texts around its numbers, and these.
struct Parts {
  std::vector<std::string> texts{{}};  ///< one more than numbers
  std::vector<std::int64_t> numbers;
};

Parts parts_of(const std::string& name) {
  Parts parts;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const std::size_t digits = end - i;
    if (digits == 0) {
      parts.texts.back() += name[i++];
      continue;
    }
    const bool is_number = digits <= kMostDigits && (digits == 1 || name[i] != '0');
    if (is_number) {
      parts.numbers.push_back(*parse_number(std::string_view(name).substr(i, digits)));
      parts.texts.emplace_back();
    } else {
      parts.texts.back().append(name, i, digits);
    }
    i = end;
  }
  return parts;
}

/// "5", "{0..61}", "{0..2,7}"; `values` ascending.
std::string values_text(const std::vector<std::int64_t>& values) {
  if (values.size() == 1) return std::to_string(values.front());
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t last = i;
    while (last + 1 < values.size() && values[last + 1] == values[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(values[i]);
    if (last > i) text += (last == i + 1 ? "," : "..") + std::to_string(values[last]);
    i = last + 1;
  }
  return "{" + text + "}";
}

/// What is known of one number of some names: all of its values.
using Values = std::vector<std::vector<std::int64_t>>;

/// Joins those that are alike but for number `at`.
std::vector<Values> join(const std::vector<Values>& all, std::size_t at) {
  std::map<Values, std::vector<std::int64_t>> joined;
  for (const Values& values : all) {
    Values rest = values;
    rest[at].clear();
    std::vector<std::int64_t>& list = joined[std::move(rest)];
    list.insert(list.end(), values[at].begin(), values[at].end());
  }
  std::vector<Values> result;
  for (const auto& [rest, list] : joined) {
    Values& values = result.emplace_back(rest);
    values[at] = list;
    std::sort(values[at].begin(), values[at].end());
    values[at].erase(std::unique(values[at].begin(), values[at].end()), values[at].end());
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

std::vector<std::string> group_names(const std::vector<std::string>& names) {
  std::map<std::vector<std::string>, std::vector<Values>> by_texts;
  std::vector<const std::vector<std::string>*> order;
  for (const std::string& name : names) {
    Parts parts = parts_of(name);
    Values values;
    for (const std::int64_t number : parts.numbers) values.push_back({number});
    const auto [found, is_new] = by_texts.try_emplace(std::move(parts.texts));
    if (is_new) order.push_back(&found->first);
    found->second.push_back(std::move(values));
  }
  std::vector<std::string> groups;
  for (const std::vector<std::string>* texts : order) {
    std::vector<Values> all = by_texts.at(*texts);
    for (std::size_t at = texts->size() - 1; at-- > 0;) all = join(all, at);
    if (texts->size() == 1) all.resize(1);
    for (const Values& values : all) {
      std::string group = texts->front();
      for (std::size_t i = 0; i < values.size(); ++i) {
        group += values_text(values[i]) + (*texts)[i + 1];
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

std::vector<std::string> names_by_reason(
    const std::vector<std::pair<std::string, std::string>>& all) {
  constexpr std::size_t kMostNames = 20;
  std::unordered_map<std::string_view, std::size_t> known;
  std::vector<std::vector<std::string>> names;
  std::vector<std::string> words;
  for (const auto& [name, reason] : all) {
    const auto [found, is_new] = known.emplace(reason, names.size());
    if (is_new) {
      names.emplace_back();
      words.push_back(" (" + reason + ")");
    }
    names[found->second].push_back(name);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    words[i].insert(0, name_list(group_names(names[i]), kMostNames));
  }
  return words;
}

}  // namespace reshardfs
