// SPDX-License-Identifier: Apache-2.0
/// A map from its file and those that it extends.
#include "modelmap/model_map.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "modelmap/layer_pattern.h"
#include "modelmap/map_text.h"

namespace reshardfs::modelmap {
namespace {

bool uses_blocks(const RuleText& rule) {
  return is_in_block(rule.to) || std::any_of(rule.from.begin(), rule.from.end(), is_in_block);
}

std::vector<std::size_t> blocks_of(const RuleText& rule, const MapText& text) {
  if (!uses_blocks(rule)) return {0};
  const std::string name = block_name(rule);
  std::vector<std::size_t> blocks;
  for (std::size_t i = 0; i < text.blocks.size(); ++i) {
    if (text.blocks[i].name == name) blocks.push_back(i + 1);
  }
  if (!blocks.empty()) return blocks;
  const std::string kind =
      name.empty() ? text.blocks.empty() ? "" : " without a name" : " with the name '" + name + "'";
  fail_at(rule.place, "'@" + name + (name.empty() ? "" : ":") +
                          "' stands for the texts of a [[block]]" + kind + ", and there is none");
}

void add_rules(const MapText& text, ModelMap& map) {
  // The blocks of each rule, counted from 1; 0: it is in none.
  std::vector<std::vector<std::size_t>> blocks;
  std::size_t count = 0;
  for (const auto& rule : text.rules) {
    blocks.push_back(blocks_of(*rule, text));
    count += blocks.back().size();
  }
  if (count > kMaxMapRules) {
    throw Error(ErrorKind::kBadInput, "the map has " + std::to_string(count) +
                                          " rules, one for each [[block]], more than " +
                                          std::to_string(kMaxMapRules))
        .in_file(map.file);
  }
  for (std::size_t i = 0; i < text.rules.size(); ++i) {
    for (const std::size_t block : blocks[i]) {
      map.rules.push_back(make_rule(*text.rules[i], text.blocks, block));
    }
  }
  for (MapRule& rule : map.rules) {
    rule.require.insert(rule.require.end(), text.require.begin(), text.require.end());
  }
}

/// Tensors keep their names: as a rule, which counts where no other does.
void add_rest(const MapText& text, ModelMap& map) {
  if (!text.rest) return;
  RuleText rule;
  rule.place = *text.rest;
  rule.to = "{name:*}";
  rule.from = {rule.to};
  rule.body = plain_rule_body();
  rule.optional = true;
  map.rest = map.rules.size();
  map.rest_except = text.rest_except;
  map.rules.push_back(make_rule(rule, {}, 0));
}

template <typename Visit>
void for_each_expression(const RuleBody& body, const Visit& visit) {
  const auto visit_all = [&](const std::vector<Expression>& expressions) {
    std::for_each(expressions.begin(), expressions.end(), visit);
  };
  const auto visit_operations = [&](const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      for (const Expression* expression : operation.expressions()) visit(*expression);
    }
  };
  std::for_each(body.shapes.begin(), body.shapes.end(), visit_all);
  if (body.to_shape) visit_all(*body.to_shape);
  std::for_each(body.each.begin(), body.each.end(), visit_operations);
  visit_operations(body.ops);
}

bool mentions(const RuleBody& body, const char* variable) {
  bool found = false;
  for_each_expression(body, [&](const Expression& expression) {
    const std::vector<std::string>& names = expression.names();
    found = found || std::find(names.begin(), names.end(), variable) != names.end();
  });
  return found;
}

/// Whether the target is its sources one after another: experts are cut between them.
bool stacks(const RuleText& rule) {
  if (rule.from.size() < 2 || rule.body->ops.empty()) return false;
  const bool as_they_are = std::all_of(rule.body->each.begin(), rule.body->each.end(),
                                       [](const auto& operations) { return operations.empty(); });
  return as_they_are && rule.body->ops.front().kind == OperationKind::kConcat;
}

RowOrder order_of_target(const RuleText& rule) {
  if (mentions(*rule.body, "tp")) return RowOrder::kByParts;
  return stacks(rule) ? RowOrder::kStacked : RowOrder::kPlain;
}

void add_tensors(const MapText& text, std::vector<NamedTensors>& tensors) {
  for (const auto& shared : text.rules) {
    const RuleText& rule = *shared;
    check_stages(rule);
    // What it says of some types holds for no others.
    if (!rule.types.empty() && !is_in_block(rule.to)) continue;
    tensors.push_back({false, without_block(rule.to), rule.to_whole, order_of_target(rule),
                       rule.place, is_in_block(rule.to), rule.stage.to});
    const RowOrder order = mentions(*rule.body, "from_tp") ? RowOrder::kByParts : RowOrder::kPlain;
    for (std::size_t i = 0; i < rule.from.size(); ++i) {
      tensors.push_back({true, without_block(rule.from[i]),
                         rule.wholes.empty() ? nullptr : rule.wholes[i], order, rule.place,
                         is_in_block(rule.from[i]), rule.stage.from});
    }
  }
  for (const AliasText& alias : text.aliases) {
    const bool is_from = alias.side == "from";
    const auto same = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensors& of) {
      return of.is_from == is_from && of.name == alias.of;
    });
    const bool is_known = same != tensors.end();
    tensors.push_back({is_from, alias.name, is_known ? same->wholes : nullptr,
                       is_known ? same->order : RowOrder::kPlain, alias.place, false, alias.stage});
  }
}

/// Prefixes that become the same cannot be told apart in the other direction.
void check_states(const ModelMap& map) {
  std::map<std::string, std::string> known;
  for (const auto& [from, to] : map.states) {
    const auto [other, is_new] = known.emplace(to, from);
    if (is_new) continue;
    throw Error(ErrorKind::kBadInput, "[states] has '" + printable(to) + "' for '" +
                                          printable(other->second) + "' and for '" +
                                          printable(from) + "'")
        .in_file(map.file);
  }
}

}  // namespace

std::vector<std::string> names_in(const RuleBody& body) {
  std::vector<std::string> names;
  for_each_expression(body, [&](const Expression& expression) {
    names.insert(names.end(), expression.names().begin(), expression.names().end());
  });
  return names;
}

bool is_for_types(const MapRule& rule, const std::vector<std::string>& model_types) {
  return std::all_of(rule.types.begin(), rule.types.end(), [&](const auto& types) {
    return std::find_first_of(types.begin(), types.end(), model_types.begin(), model_types.end()) !=
           types.end();
  });
}

std::set<std::string> ModelMap::mentioned_names() const {
  std::set<std::string> names;
  const auto add = [&](const Expression& expression) {
    names.insert(expression.names().begin(), expression.names().end());
  };
  const auto add_conditions = [&](const Conditions& conditions) {
    for (const auto& condition : conditions) add(*condition);
  };
  const auto add_pattern = [&](const Pattern& pattern) {
    for (const Pattern::Capture& capture : pattern.captures()) {
      for (std::string& name : capture.mentioned_names()) names.insert(std::move(name));
    }
  };
  std::set<const RuleBody*> bodies;
  for (const MapRule& rule : rules) {
    if (bodies.insert(rule.body.get()).second) for_each_expression(*rule.body, add);
    add_conditions(rule.when);
    for (const Requirement& requirement : rule.require) add(*requirement.that);
    for (const RuleCapture& capture : rule.captures) {
      if (capture.range) add(*capture.range);
    }
    add_pattern(rule.to);
    std::for_each(rule.from.begin(), rule.from.end(), add_pattern);
  }
  for (const MapAlias& alias : aliases) {
    add_conditions(alias.when);
    for (const auto& range : alias.ranges) {
      if (range) add(*range);
    }
    add_pattern(alias.name);
    add_pattern(alias.of);
  }
  for (const auto& [capture, counts] : family.counts) {
    std::for_each(counts.begin(), counts.end(), add);
  }
  // Views ask for some that no rule uses.
  for (const auto& [name, setting] : settings) names.insert(name);
  std::set<std::string> all = with_dependencies({names.begin(), names.end()}, variables, settings);
  if (asks_for_release()) all.insert(kReleaseVariable);
  return all;
}

std::set<std::string> ModelMap::training_keys() const {
  std::set<std::string> keys;
  for (const auto& [name, setting] : settings) {
    keys.insert(name);
    keys.insert(setting.keys.begin(), setting.keys.end());
  }
  for (const ReleaseProof& proof : release_proofs) keys.insert(proof.key);
  return keys;
}

std::optional<std::pair<std::string, std::int64_t>> ModelMap::setting_in_words(
    const std::string& text) const {
  for (const auto& [name, setting] : settings) {
    const auto found = setting.words.find(text);
    const auto depends = [&, &setting_name = name](const MapRule& rule) {
      return std::any_of(rule.when.begin(), rule.when.end(), [&](const auto& condition) {
        const auto& names = condition->names();
        return std::find(names.begin(), names.end(), setting_name) != names.end();
      });
    };
    if (found == setting.words.end() || std::none_of(rules.begin(), rules.end(), depends)) continue;
    return std::pair(name, found->second);
  }
  return std::nullopt;
}

bool ModelMap::asks_for_release() const {
  return std::any_of(settings.begin(), settings.end(),
                     [](const auto& setting) { return !setting.second.releases.empty(); });
}

ModelMap make_map(const MapText& text, std::string file) {
  ModelMap map;
  map.file = std::move(file);
  const auto side = [&](const char* name, std::string& out) {
    if (const auto found = text.sides.find(name); found != text.sides.end()) out = found->second;
  };
  side("from", map.from_side);
  side("to", map.to_side);
  map.types = text.types;
  map.is_auto = text.is_auto;
  map.other_names = text.names;
  map.variables = text.variables;
  map.settings = text.settings;
  map.states = text.states;
  map.family = text.family;
  for (const auto& [key, proof] : text.release_proofs) map.release_proofs.push_back(proof);
  const auto globs = [](const std::map<std::string, NameGlobs>& all, const char* of) {
    const auto found = all.find(of);
    return found == all.end() ? NameGlobs() : found->second;
  };
  map.drop_from = globs(text.drop, "from");
  map.drop_to = globs(text.drop, "to");
  map.identity_from = globs(text.identity, "from");
  map.identity_to = globs(text.identity, "to");
  check_states(map);
  add_rules(text, map);
  add_rest(text, map);
  for (const AliasText& alias : text.aliases) map.aliases.push_back(make_alias(alias));
  for (const BlockText& block : text.blocks) {
    if (!block.stage.is_stated()) continue;
    map.blocks.push_back(make_layer_block(block));
    std::erase_if(map.blocks.back().when, [&](const auto& condition) {
      return std::all_of(condition->names().begin(), condition->names().end(),
                         [&](const std::string& name) { return map.settings.contains(name); });
    });
  }
  add_tensors(text, map.tensors);
  map.uses_layer_pattern = map.mentioned_names().contains(kLayerPattern);
  return map;
}

}  // namespace reshardfs::modelmap
