// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules/rules_rule.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMaxParts = 1 << 20;  // as many as a stage may have devices
constexpr std::int64_t kMaxLength = std::numeric_limits<std::int64_t>::max();

constexpr const char* kCutForm =
    "a list with an axis, a list of axes or \"\" for each dimension, such as [\"tp\", \"\"]";
constexpr const char* kUnevenForm =
    "\"balanced\", or a list with \"balanced\", a list of lengths or \"\" for each dimension";
constexpr const char* kOptimizerForm = "\"all\", \"none\", true, false or a number of parts";

/// Reads the keys that say how a tensor is cut.
class CutReader {
 public:
  CutReader(const TomlTable& table, const RulesDocument& document)
      : table_(table), document_(document) {}

  void read_into(Rule& rule) {
    if (const toml::node* cut = table_.find("cut")) {
      for (const toml::node& entry : list_at("cut", *cut, kCutForm)) {
        rule.cut.push_back(axes_of(entry));
      }
    }
    if (const toml::node* uneven = table_.find("uneven")) read_uneven(*uneven, rule);
    if (const toml::node* field = table_.find("field")) read_field(*field, rule);
  }

 private:
  std::vector<int> axes_of(const toml::node& entry) {
    if (entry.is_string() && entry.value_exact<std::string>() == std::string()) return {};
    std::vector<int> axes;
    if (entry.is_string()) {
      axes.push_back(axis_of(entry));
    } else {
      for (const toml::node& name : list_at("cut", entry, kCutForm)) axes.push_back(axis_of(name));
    }
    return axes;
  }

  int axis_of(const toml::node& node) {
    const std::string name = text_at("cut", node, kCutForm);
    const auto& names = document_.axis_names;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      fail_at_line(line_of(node), "'" + printable(name) +
                                      "' is not an axis of [devices], which has " +
                                      name_list(names, names.size()));
    }
    // Layouts count axes from the last one.
    const int axis = static_cast<int>(names.end() - found) - 1;
    if (!used_.insert(axis).second) {
      fail_at_line(line_of(node), "axis '" + name + "' is used twice in one rule");
    }
    return axis;
  }

  std::int64_t parts_of(const std::vector<int>& axes) const {
    std::int64_t parts = 1;
    for (const int axis : axes) {
      parts *= *(document_.device_matrix.rbegin() + axis);
    }
    return parts;
  }

  void read_uneven(const toml::node& node, Rule& rule) const {
    rule.uneven.resize(rule.cut.size());
    if (!node.is_array()) {
      bool any = false;
      for (std::size_t d = 0; d < rule.cut.size(); ++d) {
        if (rule.cut[d].empty()) continue;
        rule.uneven[d] = split_of(node, d, rule);
        any = true;
      }
      if (!any) fail_at_line(line_of(node), "'uneven' is given, but the rule cuts no dimension");
      return;
    }
    const toml::array& entries = *node.as_array();
    if (entries.size() > rule.cut.size()) {
      fail_at_line(line_of(node), "'uneven' has " + std::to_string(entries.size()) +
                                      " entries, but 'cut' has " + std::to_string(rule.cut.size()));
    }
    for (std::size_t d = 0; d < entries.size(); ++d) {
      rule.uneven[d] = split_of(*entries.get(d), d, rule);
    }
    const bool is_even = std::all_of(rule.uneven.begin(), rule.uneven.end(),
                                     [](const auto& split) { return split == DimensionSplit{}; });
    if (is_even) rule.uneven.clear();
  }

  DimensionSplit split_of(const toml::node& node, std::size_t dimension, const Rule& rule) const {
    DimensionSplit split;
    if (const toml::array* lengths = node.as_array()) {
      for (const toml::node& length : *lengths) {
        split.lengths.push_back(number_at("uneven", length, 1, kMaxLength));
      }
    } else {
      const std::string text = text_at("uneven", node, kUnevenForm);
      if (!text.empty() && text != "balanced") {
        fail_at_line(line_of(node),
                     "'uneven' has '" + printable(text) + "', expected " + kUnevenForm);
      }
      split.balanced = text == "balanced";
    }
    if (split == DimensionSplit{}) return split;
    check_split(node, split, dimension, rule);
    return split;
  }

  void check_split(const toml::node& node, const DimensionSplit& split, std::size_t dimension,
                   const Rule& rule) const {
    const std::string which = "dimension " + std::to_string(dimension);
    if (rule.cut[dimension].empty()) {
      fail_at_line(line_of(node),
                   "'uneven' describes how to cut " + which + ", which 'cut' leaves whole");
    }
    const std::int64_t parts = parts_of(rule.cut[dimension]);
    if (!split.balanced && static_cast<std::int64_t>(split.lengths.size()) != parts) {
      fail_at_line(line_of(node), "'uneven' has " + counted(split.lengths.size(), "length") +
                                      " for " + which + ", which is cut into " +
                                      std::to_string(parts) + " parts");
    }
  }

  void read_field(const toml::node& node, Rule& rule) const {
    rule.field = number_at("field", node, 1, kMaxParts);
    if (rule.cut.empty() || rule.cut.front().empty()) {
      fail_at_line(line_of(node), "'field' is given, but the rule does not cut dimension 0");
    }
    if (!rule.uneven.empty() && rule.uneven.front() != DimensionSplit{}) {
      fail_at_line(line_of(node), "dimension 0 cannot be cut both by 'field' and by 'uneven'");
    }
  }

  const TomlTable& table_;
  const RulesDocument& document_;
  std::set<int> used_{};
};

std::vector<std::int64_t> read_stages(const toml::node& node, std::int64_t stage_count) {
  std::vector<std::int64_t> stages;
  if (!node.is_array()) return {number_at("stage", node, 0, stage_count - 1)};
  for (const toml::node& stage : *node.as_array()) {
    stages.push_back(number_at("stage", stage, 0, stage_count - 1));
    if (std::count(stages.begin(), stages.end(), stages.back()) > 1) {
      fail_at_line(line_of(stage), "stage " + std::to_string(stages.back()) + " is listed twice");
    }
  }
  if (stages.empty()) fail_at_line(line_of(node), "'stage' lists no stages");
  return stages;
}

/// The optimizer cut shares a slice among the devices that hold it, so it needs that many.
void check_optimizer(const TomlTable& table, const RulesDocument& document, const Rule& rule) {
  if (rule.optimizer <= 0) return;
  std::int64_t holders = 1;
  for (const std::int64_t size : document.device_matrix) holders *= size;
  for (const auto& axes : rule.cut) {
    for (const int axis : axes) holders /= *(document.device_matrix.rbegin() + axis);
  }
  if (holders % rule.optimizer == 0) return;
  fail_at_line(table.line_of_key("optimizer"),
               "'optimizer' asks for " + std::to_string(rule.optimizer) + " parts" +
                   (table.find("optimizer") == nullptr ? " (set in [devices])" : "") +
                   ", but a slice of this rule is held by " + std::to_string(holders) +
                   (holders == 1 ? " device" : " devices") +
                   ", which cannot be shared out equally");
}

/// A rule that leaves open how parameters are cut can state nothing else.
bool read_undecided(const TomlTable& table) {
  const bool undecided = read_flag(table, "undecided", false);
  for (const std::string_view key : {"cut", "uneven", "field", "optimizer", "stage"}) {
    if (!undecided || table.find(key) == nullptr) continue;
    fail_at_line(table.line_of_key(key), "'" + std::string(key) +
                                             "' cannot go with 'undecided', which refuses the "
                                             "parameters; remove one of them");
  }
  return undecided;
}

}  // namespace

std::int64_t read_optimizer(std::string_view key, const toml::node& node) {
  if (const auto flag = node.value_exact<bool>()) return *flag ? -1 : 0;
  if (node.is_integer()) {
    const std::int64_t parts = number_at(key, node, 0, kMaxParts);
    return parts == 1 ? 0 : parts;  // one part: not cut
  }
  const std::string text = text_at(key, node, kOptimizerForm);
  if (text == "all") return -1;
  if (text == "none") return 0;
  fail_at_line(line_of(node), "'" + std::string(key) + "' is '" + printable(text) + "', expected " +
                                  kOptimizerForm);
}

bool read_flag(const TomlTable& table, std::string_view key, bool otherwise) {
  const toml::node* node = table.find(key);
  if (node == nullptr) return otherwise;
  const auto value = node->value_exact<bool>();
  if (!value) fail_wrong_type(key, *node, "true or false");
  return *value;
}

std::vector<std::string> read_texts(std::string_view key, const toml::node& node) {
  std::vector<std::string> texts = texts_at(key, node);
  const bool has_empty = std::find(texts.begin(), texts.end(), "") != texts.end();
  if (texts.empty() || has_empty)
    fail_at_line(line_of(node), "'" + std::string(key) + "' is empty");
  return texts;
}

Rule read_rule(const toml::table& source, const RulesDocument& document,
               std::int64_t default_optimizer) {
  const TomlTable table(
      source, "[[rule]]",
      {"match", "cut", "uneven", "field", "optimizer", "stage", "undecided", "optional"});
  Rule rule;
  rule.line = table.line();
  rule.globs = read_texts("match", table.at("match"));
  rule.optional = read_flag(table, "optional", document.optional);
  rule.undecided = read_undecided(table);
  if (rule.undecided) return rule;
  CutReader(table, document).read_into(rule);
  const toml::node* optimizer = table.find("optimizer");
  rule.optimizer =
      optimizer == nullptr ? default_optimizer : read_optimizer("optimizer", *optimizer);
  check_optimizer(table, document, rule);
  if (const toml::node* stage = table.find("stage")) {
    rule.stages = read_stages(*stage, document.stage_count);
  }
  return rule;
}

}  // namespace reshardfs
