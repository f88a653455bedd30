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

/// In place of each number of a name. A "0" that is no number stands beside other digits.
constexpr char kNumber = '0';

/// A name's numbers, and in `text` what is around them.
std::vector<std::int64_t> take_numbers(const std::string& name, std::string& text) {
  std::vector<std::int64_t> numbers;
  text.clear();
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const std::size_t digits = end - i;
    const bool is_number = digits == 1 || (digits > 1 && digits <= kMostDigits && name[i] != '0');
    if (is_number) {
      numbers.push_back(*parse_number(std::string_view(name).substr(i, digits)));
      text += kNumber;
    } else {
      end = std::max(end, i + 1);
      text.append(name, i, end - i);
    }
    i = end;
  }
  return numbers;
}

/// The same name with other words in place of its numbers.
std::string with_words(const std::string& text, const std::vector<std::string>& words) {
  std::string name;
  auto word = words.begin();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_alone =
        (i == 0 || !is_digit(text[i - 1])) && (i + 1 == text.size() || !is_digit(text[i + 1]));
    if (text[i] == kNumber && is_alone) {
      name += *word++;
    } else {
      name += text[i];
    }
  }
  return name;
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

/// Lists of numbers, each of which has a number of its own.
class NumberLists {
 public:
  std::size_t number_of(std::vector<std::int64_t> list) {
    const auto [known, is_new] = numbers_.try_emplace(std::move(list), lists_.size());
    if (is_new) lists_.push_back(&known->first);
    return known->second;
  }
  std::size_t number_of_one(std::int64_t value) {
    const auto known = ones_.find(value);
    return known != ones_.end() ? known->second : ones_[value] = number_of({value});
  }
  const std::vector<std::int64_t>& operator[](std::size_t number) const { return *lists_[number]; }

 private:
  std::map<std::vector<std::int64_t>, std::size_t> numbers_;
  std::unordered_map<std::int64_t, std::size_t> ones_;  ///< of lists of one value
  std::vector<const std::vector<std::int64_t>*> lists_;
};

/// Of some names, for each of their numbers all of its values, as a list.
using Values = std::vector<std::size_t>;

/// Joins those that are alike but for number `at`.
void join(std::vector<Values>& all, std::size_t at, NumberLists& lists) {
  std::vector<std::pair<Values, std::size_t>> apart;
  apart.reserve(all.size());
  for (Values& values : all) {
    const std::size_t list = std::exchange(values[at], 0);
    apart.emplace_back(std::move(values), list);
  }
  std::sort(apart.begin(), apart.end());
  all.clear();
  for (auto begin = apart.begin(), end = begin; begin != apart.end(); begin = end) {
    std::vector<std::int64_t> joined;
    for (; end != apart.end() && end->first == begin->first; ++end) {
      const std::vector<std::int64_t>& values = lists[end->second];
      joined.insert(joined.end(), values.begin(), values.end());
    }
    std::sort(joined.begin(), joined.end());
    joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
    begin->first[at] = lists.number_of(std::move(joined));
    all.push_back(begin->first);
  }
}

}  // namespace

std::vector<std::string> group_names(const std::vector<std::string>& names) {
  NumberLists lists;
  std::unordered_map<std::string, std::size_t> numbers;  // of texts
  std::vector<std::pair<std::string, std::vector<Values>>> by_text;
  std::string text;
  for (const std::string& name : names) {
    Values values;
    for (const std::int64_t number : take_numbers(name, text)) {
      values.push_back(lists.number_of_one(number));
    }
    const auto [found, is_new] = numbers.try_emplace(text, by_text.size());
    if (is_new) by_text.push_back({text, {}});
    by_text[found->second].second.push_back(std::move(values));
  }
  std::vector<std::string> groups;
  for (auto& [around, all] : by_text) {
    const std::size_t count = all.front().size();
    for (std::size_t at = count; at-- > 0;) join(all, at, lists);
    if (count == 0) all.resize(1);
    std::sort(all.begin(), all.end(), [&](const Values& a, const Values& b) {
      return std::lexicographical_compare(
          a.begin(), a.end(), b.begin(), b.end(),
          [&](std::size_t one, std::size_t other) { return lists[one] < lists[other]; });
    });
    for (const Values& values : all) {
      std::vector<std::string> words;
      for (const std::size_t list : values) words.push_back(values_text(lists[list]));
      groups.push_back(with_words(around, words));
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
