// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "modelmap/map_toml.h"

namespace reshardfs::modelmap {
namespace {

std::string in_quotes(std::string_view text) {
  return "'" + printable(std::string(text)) + "'";
}

const toml::table& table_at(std::string_view key, const toml::node& node) {
  if (!node.is_table()) fail_wrong_type(key, node, "a table");
  return *node.as_table();
}

std::string key_text(const toml::key& key) {
  return std::string(key.str());
}

[[noreturn]] void fail_at_key(const toml::key& key, const std::string& message) {
  fail_at_line(std::max<std::int64_t>(1, key.source().begin.line), message);
}

using Keys = std::span<const std::string_view>;

constexpr std::array<std::string_view, 9> kBlockKeys = {
    "name", "from", "to", "stack", "when", "types", "range", "optional", "stage"};
constexpr std::array<std::string_view, 16> kRuleKeys = {
    "to",    "from",    "shape",    "each", "ops",  "to_shape", "range",    "when",
    "types", "require", "optional", "part", "rest", "whole",    "to_whole", "stage"};
constexpr std::array<std::string_view, 7> kAliasKeys = {"side",  "name", "of",   "when",
                                                        "range", "emit", "stage"};

class MapReader {
 public:
  MapReader(const std::string& file, const toml::table& parsed)
      : file_(parsed, "the file",
              {"extends",  "without",  "auto",   "types", "names",    "sides", "vars",
               "settings", "releases", "counts", "parts", "require",  "rest",  "block",
               "rename",   "map",      "alias",  "drop",  "identity", "states"}) {
    out_.place.file = std::make_shared<const std::string>(file);
  }

  MapText read() {
    if (const toml::node* node = file_.find("extends")) {
      out_.extends = read_map_texts("extends", *node);
      out_.place.line = line_of(*node);
    }
    if (const toml::node* node = file_.find("without")) {
      for (std::string& text : read_map_texts("without", *node)) {
        out_.without.insert(std::move(text));
      }
    }
    out_.is_auto = read_flag(file_, "auto", true);
    if (const toml::node* node = file_.find("types")) out_.types = read_map_texts("types", *node);
    read_sides();
    if (const toml::node* node = file_.find("names")) {
      for (const auto& [key, value] : table_at("names", *node)) {
        out_.names[key_text(key)] = text_at(key_text(key), value, "what --map-var states");
      }
    }
    read_variables();
    if (const toml::node* node = file_.find("settings")) {
      out_.settings = read_settings(table_at("settings", *node));
    }
    if (const toml::node* node = file_.find("releases")) {
      out_.release_proofs = read_release_proofs(table_at("releases", *node));
    }
    read_family();
    out_.require = read_requirements(file_);
    read_globs("drop", out_.drop);
    read_globs("identity", out_.identity);
    read_states();
    read_rest();
    for_each_row("block", kBlockKeys, [&](const TomlTable& table) { read_block(table); });
    for_each_table(file_, "rename", [&](const toml::table& table) { read_renames(table); });
    for_each_row("map", kRuleKeys, [&](const TomlTable& table) { add(read_rule(table)); });
    std::stable_sort(out_.rules.begin(), out_.rules.end(),
                     [](const auto& a, const auto& b) { return a->place.line < b->place.line; });
    for_each_row("alias", kAliasKeys, [&](const TomlTable& table) { read_alias(table); });
    return std::move(out_);
  }

 private:
  MapPlace place_of(const TomlTable& table) const { return {out_.place.file, table.line()}; }

  void read_sides() {
    const toml::node* node = file_.find("sides");
    if (node == nullptr) return;
    const TomlTable table(table_at("sides", *node), "[sides]", {"from", "to"});
    for (const char* side : {"from", "to"}) {
      if (table.find(side) != nullptr) out_.sides[side] = read_map_text_at(table, side);
    }
  }

  void read_variables() { read_expressions("vars", out_.variables); }

  void read_family() {
    read_expressions("counts", out_.family.counts);
    const toml::node* node = file_.find("parts");
    if (node == nullptr) return;
    for (const auto& [key, value] : table_at("parts", *node)) {
      std::vector<std::string> parts = read_map_texts(key_text(key), value);
      if (parts.empty()) fail_at_key(key, in_quotes(key_text(key)) + " of [parts] is empty");
      out_.family.choices[key_text(key)] = std::move(parts);
    }
  }

  /// [vars] and [counts]: names, each with an expression or a list of them.
  void read_expressions(const std::string& header, VariableTable& out) {
    const toml::node* node = file_.find(header);
    if (node == nullptr) return;
    for (const auto& [key, value] : table_at(header, *node)) {
      const std::string name = key_text(key);
      if (!is_expression_name(name)) {
        fail_at_key(key,
                    in_quotes(name) + " of [" + header + "] is no name that expressions can have");
      }
      std::vector<Expression>& alternatives = out[name];
      if (!value.is_array()) {
        alternatives.push_back(read_expression(name, value, ExpressionKind::kCondition));
        continue;
      }
      for (const toml::node& alternative : *value.as_array()) {
        alternatives.push_back(read_expression(name, alternative, ExpressionKind::kCondition));
      }
      if (alternatives.empty()) {
        fail_at_key(key, in_quotes(name) + " of [" + header + "] is an empty list");
      }
    }
  }

  /// [drop] and [identity]: globs of the names of each side.
  void read_globs(const std::string& header, std::map<std::string, NameGlobs>& out) {
    const toml::node* node = file_.find(header);
    if (node == nullptr) return;
    const TomlTable table(table_at(header, *node), "[" + header + "]", {"from", "to"});
    for (const char* side : {"from", "to"}) {
      const toml::node* globs = table.find(side);
      if (globs == nullptr) continue;
      for (const toml::node& glob : list_at(side, *globs, "a list of globs")) {
        out[side].push_back(text_at(side, glob, "a list of globs"));
      }
    }
  }

  void read_states() {
    const toml::node* node = file_.find("states");
    if (node == nullptr) return;
    for (const auto& [key, value] : table_at("states", *node)) {
      const std::string prefix = key_text(key);
      const std::string other = text_at(prefix, value, "the prefix of the other side");
      if (prefix.empty() || other.empty()) fail_at_key(key, "a prefix of [states] is empty");
      out_.states[prefix] = other;
    }
  }

  /// [rest]: what no rule takes.
  void read_rest() {
    const toml::node* node = file_.find("rest");
    if (node == nullptr) return;
    const TomlTable table(table_at("rest", *node), "[rest]", {"keep", "except"});
    if (!read_flag(table, "keep", false)) {
      fail_at_line(table.line(), "[rest] without 'keep = true' says nothing");
    }
    out_.rest = place_of(table);
    if (const toml::node* globs = table.find("except")) {
      out_.rest_except = NameGlobs();
      for (const std::string& glob : read_map_texts("except", *globs)) {
        out_.rest_except.push_back(glob);
      }
    }
  }

  static std::vector<std::string> read_types(const TomlTable& table) {
    const toml::node* node = table.find("types");
    return node == nullptr ? std::vector<std::string>() : read_map_texts("types", *node);
  }

  /// Calls `read` with each table of [[key]], or with each of its rows, which share the other keys.
  template <typename Read>
  void for_each_row(const std::string& key, Keys keys, const Read& read) {
    std::vector<std::string_view> all(keys.begin(), keys.end());
    all.insert(all.end(), {"columns", "rows"});
    for_each_table(file_, key, [&](const toml::table& source) {
      const TomlTable table(source, "[[" + key + "]]", all);
      if (table.find("columns") == nullptr && table.find("rows") == nullptr) return read(table);
      const std::vector<std::string> columns = columns_of(table, keys);
      for (const toml::node& row : list_at("rows", table.at("rows"), "a list of rows")) {
        read(TomlTable(table, columns, list_at("rows", row, "a list of lists")));
      }
    });
  }

  static std::vector<std::string> columns_of(const TomlTable& table, Keys keys) {
    std::vector<std::string> columns = read_map_texts("columns", table.at("columns"));
    const auto fail = [&](const std::string& column, const std::string& why) {
      fail_at_line(table.line_of_key("columns"), in_quotes(column) + " of 'columns' is " + why);
    };
    for (const std::string& column : columns) {
      if (std::find(keys.begin(), keys.end(), column) == keys.end()) {
        fail(column, "not a key that " + table.header() + " can have");
      }
      if (table.find(column) != nullptr) fail(column, "a key of " + table.header() + ", too");
      if (std::count(columns.begin(), columns.end(), column) > 1) fail(column, "there twice");
    }
    return columns;
  }

  void read_block(const TomlTable& table) {
    BlockText block;
    block.place = place_of(table);
    if (table.find("name") != nullptr) {
      block.name = read_map_text_at(table, "name");
      if (!is_expression_name(block.name)) {
        fail_at_line(table.line_of_key("name"),
                     in_quotes(block.name) + " is no name that a block can have");
      }
    }
    if (table.find("stack") != nullptr) block.stack = read_map_text_at(table, "stack");
    block.from = read_map_text_at(table, "from");
    block.to = read_map_text_at(table, "to");
    block.when = read_when(table);
    block.range = read_range(table);
    block.types = read_types(table);
    block.optional = read_flag(table, "optional", false);
    block.stage = read_stages(table);
    out_.blocks.push_back(std::move(block));
  }

  /// [[rename]]: rules that rename and that no tensor need have.
  void read_renames(const toml::table& source) {
    const TomlTable table(source, "[[rename]]", {"types", "pairs"});
    const std::string form = "a list of [to, from] or [to, from, types]";
    for (const toml::node& node : list_at("pairs", table.at("pairs"), form)) {
      const toml::array& pair = list_at("pairs", node, form);
      if (pair.size() != 2 && pair.size() != 3) {
        fail_at_line(line_of(node),
                     "'pairs' has a list that is not [to, from] or [to, from, types]");
      }
      RuleText rule = read_rule(TomlTable(table, {"to", "from", "types"}, pair));
      rule.optional = true;
      add(std::move(rule));
    }
  }

  void add(RuleText&& rule) {
    out_.rules.push_back(std::make_shared<const RuleText>(std::move(rule)));
  }

  RuleText read_rule(const TomlTable& table) {
    RuleText rule;
    rule.place = place_of(table);
    rule.to = read_map_text_at(table, "to");
    rule.from = read_map_texts("from", table.at("from"));
    if (rule.from.size() > kMaxRuleSources) {
      fail_at_line(table.line_of_key("from"),
                   "'from' has more than " + std::to_string(kMaxRuleSources) + " patterns");
    }
    rule.body = read_rule_body(table, rule.from.size());
    rule.when = read_when(table);
    rule.require = read_requirements(table);
    rule.range = read_range(table);
    rule.types = read_types(table);
    read_optional(table, rule);
    read_wholes(table, rule);
    rule.stage = read_stages(table);
    if (table.find("part") != nullptr) rule.part = read_map_text_at(table, "part");
    return rule;
  }

  void read_alias(const TomlTable& table) {
    AliasText alias;
    alias.place = place_of(table);
    alias.side = read_map_text_at(table, "side");
    if (alias.side != "from" && alias.side != "to") {
      fail_at_line(table.line_of_key("side"),
                   "'side' is " + in_quotes(alias.side) + R"(, expected "from" or "to")");
    }
    alias.name = read_map_text_at(table, "name");
    alias.of = read_map_text_at(table, "of");
    alias.when = read_when(table);
    alias.range = read_range(table);
    alias.emit = read_flag(table, "emit", true);
    alias.stage = read_stage_of_alias(table);
    out_.aliases.push_back(std::move(alias));
  }

  TomlTable file_;
  MapText out_{};
};

}  // namespace

std::shared_ptr<const RuleBody> plain_rule_body() {
  RuleBody body;
  body.each.resize(1);
  return std::make_shared<const RuleBody>(std::move(body));
}

Expression read_expression(std::string_view key, const toml::node& node, ExpressionKind kind) {
  if (const auto number = node.value_exact<std::int64_t>()) {
    // INT64_MIN cannot be negated, so that its text cannot be read.
    if (*number < -std::numeric_limits<std::int64_t>::max()) {
      fail_at_line(line_of(node), in_quotes(key) + " exceeds the range of numbers");
    }
    return Expression::parse(std::to_string(*number));
  }
  if (const auto flag = node.value_exact<bool>()) return Expression::parse(*flag ? "1" : "0");
  const std::string text = text_at(key, node, "a number or an expression");
  return parse_at(node, [&] { return Expression::parse(text, kind); });
}

Conditions read_when(const TomlTable& table) {
  const toml::node* node = table.find("when");
  if (node == nullptr) return {};
  Conditions conditions;
  const auto add = [&](const toml::node& one) {
    conditions.push_back(std::make_shared<const Expression>(
        read_expression("when", one, ExpressionKind::kCondition)));
  };
  if (!node->is_array()) {
    add(*node);
    return conditions;
  }
  for (const toml::node& one : *node->as_array()) add(one);
  if (conditions.empty()) fail_at_line(line_of(*node), "'when' is empty");
  return conditions;
}

Range read_range(const TomlTable& table) {
  Range range;
  const toml::node* node = table.find("range");
  if (node == nullptr) return range;
  if (!node->is_table()) {
    fail_wrong_type("range", *node, "a table with a number for each capture, as { expert = 8 }");
  }
  for (const auto& [key, value] : *node->as_table()) {
    range[key_text(key)] = std::make_shared<const Expression>(
        read_expression(key_text(key), value, ExpressionKind::kNumber));
  }
  return range;
}

bool read_flag(const TomlTable& table, std::string_view key, bool otherwise) {
  const toml::node* node = table.find(key);
  if (node == nullptr) return otherwise;
  const auto flag = node->value_exact<bool>();
  if (!flag) fail_wrong_type(key, *node, "true or false");
  return *flag;
}

std::vector<std::string> read_map_texts(std::string_view key, const toml::node& node) {
  std::vector<std::string> texts = texts_at(key, node);
  const bool has_empty = std::find(texts.begin(), texts.end(), "") != texts.end();
  if (has_empty || (texts.empty() && key == "from")) {
    fail_at_line(line_of(node), in_quotes(key) + " is empty");
  }
  return texts;
}

std::string read_map_text_at(const TomlTable& table, std::string_view key) {
  const toml::node& node = table.at(key);
  std::string text = text_at(key, node, "a text");
  if (text.empty()) fail_at_line(line_of(node), in_quotes(key) + " is empty");
  return text;
}

MapText read_map_text(const std::string& file, const std::string& text) {
  if (text.size() > kMaxMapBytes) {
    throw Error(ErrorKind::kBadInput, "the file is larger than 1 MiB, which maps must not be")
        .in_file(file);
  }
  return read_toml(file, text,
                   [&](const toml::table& parsed) { return MapReader(file, parsed).read(); });
}

}  // namespace reshardfs::modelmap
