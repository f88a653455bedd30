// SPDX-License-Identifier: Apache-2.0
#include "rules_file.h"

#include <optional>
#include <string_view>
#include <vector>

namespace property {
namespace {

std::string list(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + value;
  return "[" + out + "]";
}

std::string list(const naive::Numbers& numbers) {
  std::vector<std::string> values;
  for (const std::int64_t number : numbers) values.push_back(std::to_string(number));
  return list(values);
}

std::string text(const std::string& value) {
  return "'" + value + "'";
}

/// Axes are called a0, a1, ... from the last, as tensor maps count them.
std::string axis_name(std::size_t from_right) {
  return "a" + std::to_string(from_right);
}

std::vector<std::string> axis_values(const naive::Numbers& matrix) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    out.push_back(text(axis_name(matrix.size() - 1 - i) + "=" + std::to_string(matrix[i])));
  }
  return out;
}

std::string cut_entry(const std::vector<int>& axes, Random& random) {
  std::vector<std::string> names;
  for (const int axis : axes) names.push_back(text(axis_name(static_cast<std::size_t>(axis))));
  if (names.empty()) return one_in(random, 2) ? "''" : "[]";
  return names.size() == 1 && one_in(random, 2) ? names.front() : list(names);
}

std::string uneven_entry(const naive::Split& split) {
  if (split.balanced) return text("balanced");
  return split.lengths.empty() ? "''" : list(split.lengths);
}

bool is_even(const naive::Layout& layout) {
  for (const naive::Split& split : layout.splits) {
    if (split.balanced || !split.lengths.empty()) return false;
  }
  return true;
}

/// A glob that takes this name and no other of the set: each name has another number.
std::string glob_for(const std::string& name, Random& random) {
  if (one_in(random, 2)) return name;
  const std::size_t digit = name.find_first_of("0123456789");
  std::string glob = name.substr(0, digit) + "[" + name[digit] + "]" + name.substr(digit + 1);
  if (one_in(random, 2) && !name.starts_with("层")) glob.replace(0, 1, "?");
  return glob;
}

/// The number of a layer that [[layers]] for "layers.{n}." finds in the name.
std::optional<std::string> layer_of(const std::string& name) {
  constexpr std::string_view kBefore = "layers.";
  const std::size_t at = name.find(kBefore);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + kBefore.size();
  return name.substr(begin, name.find('.', begin) - begin);
}

/// Each parameter with the stages that hold it.
std::map<std::string, std::vector<std::size_t>> stages_by_name(const Side& side) {
  std::map<std::string, std::vector<std::size_t>> out;
  for (std::size_t stage = 0; stage < side.stages.size(); ++stage) {
    for (const auto& item : side.stages[stage]) out[item.first].push_back(stage);
  }
  return out;
}

std::string rule(const std::string& name, const naive::Layout& layout, Random& random) {
  std::vector<std::string> cut;
  std::vector<std::string> uneven;
  for (const auto& axes : layout.tensor_map) cut.push_back(cut_entry(axes, random));
  for (const naive::Split& split : layout.splits) uneven.push_back(uneven_entry(split));
  std::string out = "[[rule]]\nmatch = " + text(glob_for(name, random)) + "\n";
  out += "cut = " + list(cut) + "\n";
  if (!is_even(layout)) out += "uneven = " + list(uneven) + "\n";
  if (layout.fields > 1) out += "field = " + std::to_string(layout.fields) + "\n";
  const std::int64_t optimizer = layout.optimizer_size;
  return out + "optimizer = " + (optimizer < 0 ? text("all") : std::to_string(optimizer)) + "\n";
}

}  // namespace

std::string strategy_rules(const Side& side, Random& random) {
  const bool places_layers = one_in(random, 2);
  std::vector<std::vector<std::string>> layers(side.stages.size());
  std::string rules;
  for (const auto& [name, stages] : stages_by_name(side)) {
    rules += rule(name, side.stages[stages.front()].at(name), random);
    const std::optional<std::string> layer = layer_of(name);
    if (places_layers && layer && stages.size() == 1) {
      layers[stages.front()].push_back(*layer);
      continue;
    }
    // Some of these are in all stages, of which nothing needs to be said; but layers are placed.
    const bool may_be_left_out = stages.size() == side.stages.size() && !(places_layers && layer);
    if (may_be_left_out && one_in(random, 2)) continue;
    std::vector<std::string> values;
    for (const std::size_t stage : stages) values.push_back(std::to_string(stage));
    rules += "stage = " + list(values) + "\n";
  }
  std::string out = "[devices]\naxes = " + list(axis_values(side.matrix)) + "\n";
  out += "stages = " + std::to_string(side.stages.size()) + "\n";
  if (places_layers) {
    std::vector<std::string> lists;
    for (const auto& numbers : layers) lists.push_back(list(numbers));
    out += "[[layers]]\nmatch = 'layers.{n}.'\nstages = " + list(lists) + "\n";
  }
  // Rules are tried in order: this one must take nothing that has a rule of its own.
  if (one_in(random, 2)) rules += "[[rule]]\nmatch = '*'\n";
  return out + rules;
}

}  // namespace property
