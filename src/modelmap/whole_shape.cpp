// SPDX-License-Identifier: Apache-2.0
#include "modelmap/whole_shape.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "modelmap/map_toml.h"

namespace reshardfs::modelmap {
namespace {

constexpr std::string_view kCutMark = "cut ";
constexpr std::string_view kUnitMark = " by ";
constexpr const char* kWholeForm =
    R"(a text like "[cut heads*head_dim by heads, hidden]", or a table with one for each word)";

std::shared_ptr<const WholeShapes> read_wholes(std::string_view key, const toml::node& node) {
  const auto shape_at = [&](const toml::node& value) {
    const std::string text = text_at(key, value, kWholeForm);
    return parse_at(value, [&] { return WholeShape::parse(text); });
  };
  auto wholes = std::make_shared<WholeShapes>();
  if (const toml::table* words = node.as_table()) {
    for (const auto& [word, value] : *words) {
      wholes->emplace(std::string(word.str()), shape_at(value));
    }
  } else {
    wholes->emplace("", shape_at(node));
  }
  return wholes;
}

}  // namespace

WholeShape WholeShape::parse(std::string_view text) {
  WholeShape shape;
  for (std::string_view length : list_entries(text)) {
    if (length.starts_with(kCutMark)) {
      if (shape.cut) {
        throw Error(ErrorKind::kBadInput,
                    "'" + printable(std::string(text)) + "' has more than one 'cut'");
      }
      shape.cut = shape.lengths.size();
      length.remove_prefix(kCutMark.size());
      if (const std::size_t mark = length.find(kUnitMark); mark != std::string_view::npos) {
        shape.unit = Expression::parse(length.substr(mark + kUnitMark.size()));
        length = length.substr(0, mark);
      }
    }
    shape.lengths.push_back(Expression::parse(length));
  }
  return shape;
}

std::string WholeShape::formula() const {
  std::string text;
  for (const Expression& length : lengths) text += (text.empty() ? "" : ", ") + length.text();
  return text;
}

void read_wholes(const TomlTable& table, RuleText& rule) {
  if (const toml::node* node = table.find("whole")) {
    if (const toml::array* list = node->as_array()) {
      for (const toml::node& whole : *list) rule.wholes.push_back(read_wholes("whole", whole));
    } else {
      rule.wholes.assign(rule.from.size(), read_wholes("whole", *node));
    }
    if (rule.wholes.size() != rule.from.size()) {
      fail_at_line(line_of(*node), "'whole' has " + std::to_string(rule.wholes.size()) +
                                       " entries, but 'from' has " +
                                       std::to_string(rule.from.size()));
    }
  }
  if (const toml::node* node = table.find("to_whole")) {
    rule.to_whole = read_wholes("to_whole", *node);
  } else if (!rule.body->moves && !rule.wholes.empty()) {
    rule.to_whole = rule.wholes.front();
  }
}

}  // namespace reshardfs::modelmap
