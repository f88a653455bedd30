// SPDX-License-Identifier: Apache-2.0
#include "modelmap/config_keys.h"

#include <map>
#include <utility>

#include "base/toml/toml_table.h"
#include "modelmap/config_keys_text.h"

namespace reshardfs::modelmap {
namespace {

using Table = std::map<std::string, ConfigKeys>;

std::set<std::string> types_at(const TomlTable& table, std::string_view key) {
  const toml::node* node = table.find(key);
  if (node == nullptr) return {};
  const std::vector<std::string> types = texts_at(key, *node);
  return {types.begin(), types.end()};
}

Table read(const toml::table& parsed) {
  Table out;
  for (const auto& [key, node] : parsed) {
    const std::string name(key.str());
    if (!node.is_table()) fail_wrong_type(name, node, "a table");
    const TomlTable table(*node.as_table(), "[" + name + "]", {"keys", "absent", "except", "only"});
    ConfigKeys known;
    known.keys = texts_at("keys", table.at("keys"));
    if (const toml::node* absent = table.find("absent")) {
      known.absent = text_at("absent", *absent, "an expression");
    }
    known.except = types_at(table, "except");
    known.only = types_at(table, "only");
    out.emplace(name, std::move(known));
  }
  return out;
}

}  // namespace

const ConfigKeys* config_keys(const std::string& name) {
  static const Table table = read_toml("config-keys.toml", std::string(kConfigKeys), read);
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace reshardfs::modelmap
