// SPDX-License-Identifier: Apache-2.0
/// What [[map]] says of shapes and operations, and what rules and maps say about tensors that must
/// be there, and about what must hold for them.
#include <algorithm>
#include <utility>

#include "modelmap/map_toml.h"

namespace reshardfs::modelmap {
namespace {

constexpr const char* kOpsForm = R"(a list of operations, as ["reshape [-1, H]", "concat 0"])";
constexpr const char* kShapeForm = R"(a text like "[2*F, H]", or a list of them)";

class BodyReader {
 public:
  BodyReader(const TomlTable& table, std::size_t sources) : table_(table), sources_(sources) {}

  std::shared_ptr<const RuleBody> read() {
    read_shapes();
    read_each();
    if (const toml::node* ops = table_.find("ops")) out_.ops = operations("ops", *ops);
    if (const toml::node* shape = table_.find("to_shape")) {
      out_.to_shape = shape_of("to_shape", *shape);
    }
    read_rest();
    check_count();
    read_computed();
    check_joins();
    out_.moves = std::any_of(out_.ops.begin(), out_.ops.end(), is_move);
    for (const auto& each : out_.each) {
      out_.moves = out_.moves || std::any_of(each.begin(), each.end(), is_move);
    }
    return std::make_shared<const RuleBody>(std::move(out_));
  }

 private:
  static bool is_move(const Operation& operation) { return !operation.computes(); }

  static std::vector<Expression> shape_of(std::string_view key, const toml::node& node) {
    const std::string text = text_at(key, node, kShapeForm);
    return parse_at(node, [&] { return parse_expression_list(text); });
  }

  static std::vector<Operation> operations(std::string_view key, const toml::node& node) {
    std::vector<Operation> all;
    for (const toml::node& entry : list_at(key, node, kOpsForm)) {
      if (all.size() == kMaxOperations) break;  // which check_count() will notice
      const std::string text = text_at(key, entry, kOpsForm);
      all.push_back(parse_at(entry, [&] { return parse_operation(text); }));
    }
    if (node.as_array()->size() > kMaxOperations) fail_for_count(line_of(node));
    return all;
  }

  [[noreturn]] static void fail_for_count(std::int64_t line) {
    fail_at_line(line, "the rule has more than " + std::to_string(kMaxOperations) + " operations");
  }

  void check_list(std::string_view key, const toml::node& node, std::size_t entries) const {
    if (entries == sources_) return;
    fail_at_line(line_of(node), "'" + std::string(key) + "' has " + std::to_string(entries) +
                                    " entries, but 'from' has " + std::to_string(sources_));
  }

  void read_shapes() {
    const toml::node* node = table_.find("shape");
    if (node == nullptr) return;
    if (!node->is_array()) {
      out_.shapes.assign(sources_, shape_of("shape", *node));
      return;
    }
    check_list("shape", *node, node->as_array()->size());
    for (const toml::node& shape : *node->as_array()) {
      out_.shapes.push_back(shape_of("shape", shape));
    }
  }

  void read_each() {
    out_.each.resize(sources_);
    const toml::node* node = table_.find("each");
    if (node == nullptr) return;
    const toml::array& list = list_at("each", *node, kOpsForm);
    const bool is_nested = !list.empty() && list.get(0)->is_array();
    if (!is_nested) {
      out_.each.assign(sources_, operations("each", *node));
      return;
    }
    check_list("each", *node, list.size());
    for (std::size_t i = 0; i < sources_; ++i) out_.each[i] = operations("each", *list.get(i));
  }

  void read_rest() {
    const toml::node* node = table_.find("rest");
    if (node == nullptr) return;
    if (text_at("rest", *node, "\"drop\"") != "drop") {
      fail_at_line(line_of(*node), "'rest' can be \"drop\" alone");
    }
    out_.drops_rest = true;
  }

  void check_count() const {
    std::size_t most = 0;
    for (const auto& each : out_.each) most = std::max(most, each.size());
    if (most + out_.ops.size() > kMaxOperations) fail_for_count(table_.line());
  }

  void read_computed() {
    for (const auto& each : out_.each) {
      for (const Operation& operation : each) {
        note(operation);
        if (is_move(operation) && !operation.joins_sources()) continue;
        fail_at_line(table_.line_of_key("each"),
                     "'" + printable(operation.text) + "' is possible in 'ops' alone");
      }
    }
    for (const Operation& operation : out_.ops) note(operation);
    if (out_.added != 0 && (out_.cast || pads_ || out_.has_fill)) {
      fail_for_both("add", pads_ ? "pad" : out_.cast ? "cast" : "fill");
    }
    // What is there could not be compared with what is filled in.
    if (out_.has_fill && (out_.cast || pads_)) fail_for_both("fill", pads_ ? "pad" : "cast");
  }

  [[noreturn]] void fail_for_both(const std::string& one, const std::string& other) const {
    fail_at_line(table_.line_of_key(table_.find("ops") != nullptr ? "ops" : "each"),
                 "the rule has both '" + one + "' and '" + other + "'");
  }

  void note(const Operation& operation) {
    if (operation.kind == OperationKind::kRepeat) out_.has_repeat = true;
    if (operation.kind == OperationKind::kFill) out_.has_fill = true;
    if (operation.kind == OperationKind::kPad) pads_ = true;
    if (operation.kind == OperationKind::kAdd) {
      if (out_.added != 0)
        fail_at_line(table_.line_of_key("ops"), "the rule has more than one add");
      out_.added = operation.added;
    }
    if (operation.kind != OperationKind::kCast) return;
    if (out_.cast) fail_at_line(table_.line_of_key("ops"), "the rule has more than one cast");
    out_.cast = {operation.cast_from, operation.cast_to};
  }

  /// What computes moves nothing: what joins the sources may stand behind them.
  void check_joins() const {
    bool is_first = true;
    for (const Operation& operation : out_.ops) {
      if (!is_move(operation)) continue;
      if (operation.joins_sources() && !is_first) {
        fail_at_line(table_.line_of_key("ops"),
                     "'" + printable(operation.text) +
                         "' joins the sources, so it must be the first operation of 'ops'");
      }
      if (is_first && sources_ > 1 && !operation.joins_sources()) fail_unjoined();
      is_first = false;
    }
    if (is_first && sources_ > 1) fail_unjoined();
  }

  [[noreturn]] void fail_unjoined() const {
    fail_at_line(
        table_.line_of_key("ops"),
        "several sources have to be joined: 'ops' must start with 'concat A' or 'stack A'");
  }

  const TomlTable& table_;
  std::size_t sources_;
  bool pads_ = false;
  RuleBody out_{};
};

}  // namespace

std::shared_ptr<const RuleBody> read_rule_body(const TomlTable& table, std::size_t sources) {
  return BodyReader(table, sources).read();
}

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
