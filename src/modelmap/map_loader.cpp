// SPDX-License-Identifier: Apache-2.0
#include "modelmap/map_loader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "modelmap/map_text.h"

namespace reshardfs::modelmap {
namespace {

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
  const auto target = [](const auto& rule) { return std::pair(rule->to, rule->types); };
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

[[noreturn]] void fail_for_rules(const MapText& map) {
  throw Error(ErrorKind::kBadInput,
              "the map has more than " + std::to_string(kMaxMapRules) + " rules")
      .in_file(*map.place.file);
}

}  // namespace

void fail_at(const MapPlace& place, const std::string& message) {
  throw Error(ErrorKind::kBadInput, "line " + std::to_string(place.line) + ": " + message)
      .in_file(*place.file);
}

ModelMap MapLoader::load(const std::filesystem::path& path) {
  files_ = 0;
  open_.clear();  // of a map that could not be loaded
  const std::filesystem::path file = normal_location(path);
  return make_map(*text_of_map(file), file.string());
}

MapLoader::TextPtr MapLoader::text_of_map(const std::filesystem::path& path) {
  if (const auto known = loaded_.find(path); known != loaded_.end()) return known->second;
  if (++files_ > kMaxMapFiles) {
    throw Error(ErrorKind::kBadInput,
                "the map consists of more than " + std::to_string(kMaxMapFiles) + " files")
        .in_file(path.string());
  }
  const std::optional<std::string> text = text_of_file(path);
  if (!text) return loaded_[path] = load_by_other_name(path);
  open_.push_back(path);
  auto map = std::make_shared<MapText>(read_map_text(path.string(), *text));
  inherit_all(*map, path);
  open_.pop_back();
  return loaded_[path] = map;
}

/// Nothing: it is the other name of a map.
std::optional<std::string> MapLoader::text_of_file(const std::filesystem::path& path) {
  try {
    return read_(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMissing || !load_by_other_name(path)) throw;
    return std::nullopt;
  }
}

/// The map that has the file's name among its [names], with what that name states; nullptr: there
/// is none. "a-b" can be another name of "a".
MapLoader::TextPtr MapLoader::load_by_other_name(const std::filesystem::path& path) {
  const std::string name = path.stem().string();
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos) return nullptr;
  auto map = std::make_shared<MapText>();
  try {
    *map = *text_of_map(path.parent_path() / (name.substr(0, dash) + path.extension().string()));
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

/// The rules of the parents come before the own ones.
void MapLoader::inherit_all(MapText& map, const std::filesystem::path& path) {
  MapText parents;
  for (const std::string& name : map.extends) {
    inherit(parents, *load_parent(map, normal_location(path.parent_path() / name)));
  }
  std::set<std::string> replaced = map.without;
  for (const auto& rule : map.rules) replaced.insert(rule->to);
  auto rules = std::exchange(parents.rules, {});
  std::erase_if(rules, [&](const auto& rule) { return replaced.contains(rule->to); });
  rules.insert(rules.end(), map.rules.begin(), map.rules.end());
  map.rules.clear();
  inherit(map, parents);
  if (rules.size() > kMaxMapRules) fail_for_rules(map);
  map.rules = std::move(rules);
}

MapLoader::TextPtr MapLoader::load_parent(const MapText& map, const std::filesystem::path& path) {
  if (std::find(open_.begin(), open_.end(), path) != open_.end()) {
    fail_at(map.place,
            "'extends' goes round in a circle: '" + printable(path.string()) + "' extends itself");
  }
  if (open_.size() > kMaxMapDepth) {
    fail_at(map.place, "'extends' is more than " + std::to_string(kMaxMapDepth) + " files deep");
  }
  try {
    return text_of_map(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMissing) throw;
    fail_at(map.place, "'extends' names '" + printable(path.string()) + "', which does not exist");
  }
}

ModelMap load_model_map(const std::filesystem::path& path, const ReadMapFile& read) {
  return MapLoader(read).load(path);
}

}  // namespace reshardfs::modelmap
