// SPDX-License-Identifier: Apache-2.0
/// A map from its file and those that it extends.
#include "modelmap/model_map.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "modelmap/map_text.h"

namespace reshardfs::modelmap {
namespace {

using MapTextPtr = std::shared_ptr<const MapText>;

[[noreturn]] void fail_at(const MapPlace& place, const std::string& message) {
  throw Error(ErrorKind::kBadInput, "line " + std::to_string(place.line) + ": " + message)
      .in_file(*place.file);
}

std::pair<std::string, std::string> key_of(const AliasText& alias) {
  return {alias.side, alias.name};
}

/// Adds what `child` does not replace of `parent`.
template <typename Entry, typename KeyOf>
void add_unreplaced(std::vector<Entry>& entries, const std::vector<Entry>& parent,
                    const KeyOf& key) {
  std::set<decltype(key(parent[0]))> replaced;
  for (const Entry& entry : entries) replaced.insert(key(entry));
  for (const Entry& entry : parent) {
    if (!replaced.contains(key(entry))) entries.push_back(entry);
  }
}

void add_globs(std::map<std::string, NameGlobs>& globs,
               const std::map<std::string, NameGlobs>& more) {
  for (const auto& [side, added] : more) {
    NameGlobs& own = globs[side];
    own.insert(own.end(), added.begin(), added.end());
  }
}

/// `map` is to have what `parent` has, except for what it has itself.
void inherit(MapText& map, const MapText& parent) {
  const auto target = [](const RuleText& rule) { return std::pair(rule.to, rule.types); };
  add_unreplaced(map.rules, parent.rules, target);
  add_unreplaced(map.aliases, parent.aliases, key_of);
  map.variables.insert(parent.variables.begin(), parent.variables.end());
  map.settings.insert(parent.settings.begin(), parent.settings.end());
  map.states.insert(parent.states.begin(), parent.states.end());
  map.sides.insert(parent.sides.begin(), parent.sides.end());
  map.release_proofs.insert(parent.release_proofs.begin(), parent.release_proofs.end());
  add_globs(map.drop, parent.drop);
  add_globs(map.identity, parent.identity);
  add_unreplaced(map.blocks, parent.blocks, [](const BlockText& block) { return block.name; });
  map.require.insert(map.require.end(), parent.require.begin(), parent.require.end());
  if (!map.rest) map.rest = parent.rest;
  map.rest_except.insert(map.rest_except.end(), parent.rest_except.begin(),
                         parent.rest_except.end());
  map.family.counts.insert(parent.family.counts.begin(), parent.family.counts.end());
  map.family.choices.insert(parent.family.choices.begin(), parent.family.choices.end());
}

/// Reads files, each once, and joins them.
class Loader {
 public:
  explicit Loader(const ReadMapFile& read) : read_(read) {}

  /// A file with all that it inherits.
  MapTextPtr load(const std::filesystem::path& path) {
    if (const auto known = loaded_.find(path); known != loaded_.end()) return known->second;
    if (loaded_.size() + open_.size() >= kMaxMapFiles) {
      throw Error(ErrorKind::kBadInput,
                  "the map consists of more than " + std::to_string(kMaxMapFiles) + " files")
          .in_file(path.string());
    }
    const std::optional<std::string> text = text_of(path);
    if (!text) return loaded_[path] = load_by_other_name(path);
    open_.push_back(path);
    auto map = std::make_shared<MapText>(read_map_text(path.string(), *text));
    map->rules = with_inherited(*map, path);
    open_.pop_back();
    return loaded_[path] = map;
  }

 private:
  /// Nothing: it is the other name of a map.
  std::optional<std::string> text_of(const std::filesystem::path& path) {
    try {
      return read_(path);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kMissing || !load_by_other_name(path)) throw;
      return std::nullopt;
    }
  }

  /// The map that has the file's name among its [names], with what that name states; nullptr: there
  /// is none. "a-b" can be another name of "a".
  MapTextPtr load_by_other_name(const std::filesystem::path& path) {
    const std::string name = path.stem().string();
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos) return nullptr;
    auto map = std::make_shared<MapText>();
    try {
      *map = *load(path.parent_path() / (name.substr(0, dash) + path.extension().string()));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kMissing) throw;
      return nullptr;
    }
    const auto stated = map->names.find(name);
    if (stated == map->names.end()) return nullptr;
    for (auto& [setting, read] : map->settings) {
      const auto value = read.words.find(stated->second);
      if (value != read.words.end()) {
        read.otherwise =
            std::make_shared<const Expression>(Expression::parse(std::to_string(value->second)));
      }
    }
    return map;
  }

  /// Inherits everything; the rules of the parents come before the own ones.
  std::vector<RuleText> with_inherited(MapText& map, const std::filesystem::path& path) {
    MapText parents;
    for (const std::string& name : map.extends) {
      inherit(parents, *load_parent(map, normal_location(path.parent_path() / name)));
    }
    std::set<std::string> replaced = map.without;
    for (const RuleText& rule : map.rules) replaced.insert(rule.to);
    std::vector<RuleText> rules;
    for (RuleText& rule : parents.rules) {
      if (!replaced.contains(rule.to)) rules.push_back(std::move(rule));
    }
    std::move(map.rules.begin(), map.rules.end(), std::back_inserter(rules));
    map.rules.clear();
    parents.rules.clear();
    inherit(map, parents);
    if (rules.size() > kMaxMapRules) fail_for_rules(map);
    return rules;
  }

  [[noreturn]] static void fail_for_rules(const MapText& map) {
    throw Error(ErrorKind::kBadInput,
                "the map has more than " + std::to_string(kMaxMapRules) + " rules")
        .in_file(*map.place.file);
  }

  MapTextPtr load_parent(const MapText& map, const std::filesystem::path& path) {
    if (std::find(open_.begin(), open_.end(), path) != open_.end()) {
      fail_at(map.place, "'extends' goes round in a circle: '" + printable(path.string()) +
                             "' extends itself");
    }
    if (open_.size() > kMaxMapDepth) {
      fail_at(map.place, "'extends' is more than " + std::to_string(kMaxMapDepth) + " files deep");
    }
    return load(path);
  }

  const ReadMapFile& read_;
  std::map<std::filesystem::path, MapTextPtr> loaded_{};
  std::vector<std::filesystem::path> open_{};
};

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
  for (const RuleText& rule : text.rules) {
    blocks.push_back(blocks_of(rule, text));
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
      map.rules.push_back(make_rule(text.rules[i], text.blocks, block));
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

bool mentions(const RuleBody& body, const char* variable) {
  const std::vector<std::string> names = names_in(body);
  return std::find(names.begin(), names.end(), variable) != names.end();
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
  for (const RuleText& rule : text.rules) {
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

void add_names(const std::vector<Expression>& expressions, std::vector<std::string>& out) {
  for (const Expression& expression : expressions) {
    out.insert(out.end(), expression.names().begin(), expression.names().end());
  }
}

void add_names(const std::shared_ptr<const Expression>& expression, std::vector<std::string>& out) {
  if (expression) out.insert(out.end(), expression->names().begin(), expression->names().end());
}

void add_names(const Pattern& pattern, std::vector<std::string>& out) {
  for (const Pattern::Capture& capture : pattern.captures()) {
    const std::vector<std::string> names = capture.mentioned_names();
    out.insert(out.end(), names.begin(), names.end());
  }
}

}  // namespace

std::vector<std::string> names_in(const RuleBody& body) {
  std::vector<std::string> names;
  for (const auto& shape : body.shapes) add_names(shape, names);
  if (body.to_shape) add_names(*body.to_shape, names);
  const auto add_operations = [&](const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      for (const Expression* expression : operation.expressions()) add_names({*expression}, names);
    }
  };
  for (const auto& each : body.each) add_operations(each);
  add_operations(body.ops);
  return names;
}

bool is_for_types(const MapRule& rule, const std::vector<std::string>& model_types) {
  return std::all_of(rule.types.begin(), rule.types.end(), [&](const auto& types) {
    return std::find_first_of(types.begin(), types.end(), model_types.begin(), model_types.end()) !=
           types.end();
  });
}

std::set<std::string> ModelMap::mentioned_names() const {
  std::vector<std::string> names;
  std::set<const RuleBody*> bodies;
  for (const MapRule& rule : rules) {
    if (bodies.insert(rule.body.get()).second) {
      const std::vector<std::string> more = names_in(*rule.body);
      names.insert(names.end(), more.begin(), more.end());
    }
    for (const auto& condition : rule.when) add_names(condition, names);
    for (const Requirement& requirement : rule.require) add_names(requirement.that, names);
    for (const RuleCapture& capture : rule.captures) add_names(capture.range, names);
    add_names(rule.to, names);
    for (const Pattern& pattern : rule.from) add_names(pattern, names);
  }
  for (const MapAlias& alias : aliases) {
    for (const auto& condition : alias.when) add_names(condition, names);
    for (const auto& range : alias.ranges) add_names(range, names);
    add_names(alias.name, names);
    add_names(alias.of, names);
  }
  for (const auto& [capture, counts] : family.counts) add_names(counts, names);
  // Views ask for some that no rule uses.
  for (const auto& [name, setting] : settings) names.push_back(name);
  Variables known;
  known.table = variables;
  known.settings = settings;
  std::set<std::string> all = known.with_dependencies(names);
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

ModelMap load_model_map(const std::filesystem::path& path, const ReadMapFile& read) {
  const MapTextPtr text = Loader(read).load(normal_location(path));
  ModelMap map;
  map.file = normal_location(path).string();
  const auto side = [&](const char* name, std::string& out) {
    if (const auto found = text->sides.find(name); found != text->sides.end()) out = found->second;
  };
  side("from", map.from_side);
  side("to", map.to_side);
  map.types = text->types;
  map.is_auto = text->is_auto;
  map.other_names = text->names;
  map.variables = text->variables;
  map.settings = text->settings;
  map.states = text->states;
  map.family = text->family;
  for (const auto& [key, proof] : text->release_proofs) map.release_proofs.push_back(proof);
  const auto globs = [](const std::map<std::string, NameGlobs>& all, const char* of) {
    const auto found = all.find(of);
    return found == all.end() ? NameGlobs() : found->second;
  };
  map.drop_from = globs(text->drop, "from");
  map.drop_to = globs(text->drop, "to");
  map.identity_from = globs(text->identity, "from");
  map.identity_to = globs(text->identity, "to");
  check_states(map);
  add_rules(*text, map);
  add_rest(*text, map);
  for (const AliasText& alias : text->aliases) map.aliases.push_back(make_alias(alias));
  for (const BlockText& block : text->blocks) {
    if (!block.stage.is_stated()) continue;
    map.blocks.push_back(make_layer_block(block));
    std::erase_if(map.blocks.back().when, [&](const auto& condition) {
      return std::all_of(condition->names().begin(), condition->names().end(),
                         [&](const std::string& name) { return map.settings.contains(name); });
    });
  }
  add_tensors(*text, map.tensors);
  return map;
}

}  // namespace reshardfs::modelmap
