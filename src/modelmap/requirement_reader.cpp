// SPDX-License-Identifier: Apache-2.0
/// What rules and maps say about tensors that must be there, and about what must hold for them.
#include <algorithm>
#include <utility>

#include "modelmap/map_toml.h"

namespace reshardfs::modelmap {
namespace {

constexpr const char* kForm =
    R"(a condition, a table { that = "groups % tp == 0", say = "..." }, or a list of these)";

Requirement read_requirement(const toml::node& node) {
  Requirement requirement;
  const auto read = [](const toml::node& condition) {
    return std::make_shared<const Expression>(
        read_expression("require", condition, ExpressionKind::kCondition));
  };
  if (!node.is_table()) {
    if (!node.is_string()) fail_wrong_type("require", node, kForm);
    requirement.that = read(node);
    return requirement;
  }
  const TomlTable table(*node.as_table(), "'require'", {"that", "say"});
  requirement.that = read(table.at("that"));
  if (table.find("say") != nullptr) requirement.say = read_map_text_at(table, "say");
  return requirement;
}

}  // namespace

Requirements read_requirements(const TomlTable& table) {
  Requirements requirements;
  const toml::node* node = table.find("require");
  if (node == nullptr) return requirements;
  if (!node->is_array()) return {read_requirement(*node)};
  for (const toml::node& entry : *node->as_array()) {
    requirements.push_back(read_requirement(entry));
  }
  return requirements;
}

void read_optional(const TomlTable& table, RuleText& rule) {
  const toml::node* node = table.find("optional");
  if (node == nullptr || node->is_boolean()) {
    rule.optional = read_flag(table, "optional", false);
    return;
  }
  if (!node->is_array()) {
    fail_wrong_type("optional", *node, R"(true, false, or a list of words like ["bias"])");
  }
  rule.optional_words = read_map_texts("optional", *node);
}

}  // namespace reshardfs::modelmap
