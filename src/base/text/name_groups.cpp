// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_groups.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
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
void take_numbers(std::string_view name, std::vector<std::int64_t>& numbers, std::string& text) {
  numbers.clear();
  text.clear();
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const std::size_t digits = end - i;
    const bool is_number = digits == 1 || (digits > 1 && digits <= kMostDigits && name[i] != '0');
    if (is_number) {
      numbers.push_back(*parse_number(name.substr(i, digits)));
      text += kNumber;
    } else {
      end = std::max(end, i + 1);
      text.append(name, i, end - i);
    }
    i = end;
  }
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
    constexpr std::size_t kFew = 1024;
    const auto place = static_cast<std::size_t>(value);
    if (place >= kFew) {
      const auto known = ones_.find(value);
      return known != ones_.end() ? known->second : ones_[value] = number_of({value});
    }
    if (place >= small_.size()) small_.resize(kFew, kUnknown);
    return small_[place] != kUnknown ? small_[place] : small_[place] = number_of({value});
  }
  const std::vector<std::int64_t>& operator[](std::size_t number) const { return *lists_[number]; }

 private:
  std::map<std::vector<std::int64_t>, std::size_t> numbers_;
  static constexpr std::size_t kUnknown = SIZE_MAX;

  std::vector<std::size_t> small_;                      ///< of lists of one small value
  std::unordered_map<std::int64_t, std::size_t> ones_;  ///< of other lists of one value
  std::vector<const std::vector<std::int64_t>*> lists_;
};

/// Names that have the same around their numbers.
struct Alike {
  std::string text;
  std::size_t numbers = 0;  ///< of each name
  std::size_t rows = 0;
  /// Of each row, which stands for some of the names: for each number all of its values, as a list.
  std::vector<std::size_t> lists{};

  std::span<std::size_t> row(std::size_t i) {
    return std::span(lists).subspan(i * numbers, numbers);
  }
};

/// Joins rows that are alike but for number `at`.
void join(Alike& alike, std::size_t at, NumberLists& lists) {
  std::vector<std::size_t> apart(alike.rows);  // of each row
  for (std::size_t i = 0; i < alike.rows; ++i) apart[i] = std::exchange(alike.row(i)[at], 0);
  std::vector<std::uint32_t> order(alike.rows);
  std::iota(order.begin(), order.end(), 0U);
  const auto is_before = [&](std::uint32_t a, std::uint32_t b) {
    const auto way = std::lexicographical_compare_three_way(
        alike.row(a).begin(), alike.row(a).end(), alike.row(b).begin(), alike.row(b).end());
    return std::is_eq(way) ? apart[a] < apart[b] : std::is_lt(way);
  };
  // Most names are in the order of their numbers.
  if (!std::is_sorted(order.begin(), order.end(), is_before)) {
    std::sort(order.begin(), order.end(), is_before);
  }
  std::vector<std::size_t> joined;
  std::vector<std::int64_t> values;
  for (auto begin = order.begin(), end = begin; begin != order.end(); begin = end) {
    const std::span<std::size_t> row = alike.row(*begin);
    values.clear();
    for (; end != order.end() && std::ranges::equal(alike.row(*end), row); ++end) {
      const std::vector<std::int64_t>& more = lists[apart[*end]];
      values.insert(values.end(), more.begin(), more.end());
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    joined.insert(joined.end(), row.begin(), row.end());
    (joined.end() - static_cast<std::ptrdiff_t>(alike.numbers))[static_cast<std::ptrdiff_t>(at)] =
        lists.number_of(values);
  }
  alike.lists = std::move(joined);
  alike.rows = alike.lists.size() / alike.numbers;
}

/// The names of the rows, in the order of their numbers.
void add_groups(Alike& alike, const NumberLists& lists, std::vector<std::string>& groups) {
  std::vector<std::uint32_t> order(alike.rows);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::ranges::lexicographical_compare(
        alike.row(a), alike.row(b),
        [&](std::size_t one, std::size_t other) { return lists[one] < lists[other]; });
  });
  for (const std::uint32_t i : order) {
    std::vector<std::string> words;
    for (const std::size_t list : alike.row(i)) words.push_back(values_text(lists[list]));
    groups.push_back(with_words(alike.text, words));
  }
}

}  // namespace

std::vector<std::string> group_names(std::span<const std::string_view> names) {
  NumberLists lists;
  std::unordered_map<std::string, std::size_t> known;  // by text
  std::vector<Alike> all;
  std::string text;
  std::vector<std::int64_t> numbers;
  for (const std::string_view name : names) {
    take_numbers(name, numbers, text);
    const auto [found, is_new] = known.try_emplace(text, all.size());
    if (is_new) all.push_back({text, numbers.size()});
    Alike& alike = all[found->second];
    for (const std::int64_t number : numbers) alike.lists.push_back(lists.number_of_one(number));
    ++alike.rows;
  }
  std::vector<std::string> groups;
  for (Alike& alike : all) {
    for (std::size_t at = alike.numbers; at-- > 0;) join(alike, at, lists);
    if (alike.numbers == 0) alike.rows = 1;
    add_groups(alike, lists, groups);
  }
  return groups;
}

std::vector<std::string> group_names(const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return group_names(views);
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
