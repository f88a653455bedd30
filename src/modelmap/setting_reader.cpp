// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "base/text/numbers.h"
#include "modelmap/map_toml.h"

namespace reshardfs::modelmap {
namespace {

std::string setting_text(const toml::key& key) {
  return std::string(key.str());
}

const toml::table& table_at(std::string_view key, const toml::node& node, const char* expected) {
  if (!node.is_table()) fail_wrong_type(key, node, expected);
  return *node.as_table();
}

[[noreturn]] void fail_at_setting(const toml::key& key, const std::string& message) {
  fail_at_line(std::max<std::int64_t>(1, key.source().begin.line), message);
}

std::int64_t setting_value(std::string_view key, const toml::node& node) {
  if (const auto flag = node.value_exact<bool>()) return *flag ? 1 : 0;
  return number_at(key, node, std::numeric_limits<std::int64_t>::min(),
                   std::numeric_limits<std::int64_t>::max());
}

std::map<std::int64_t, std::string> read_readings(const toml::node& node) {
  constexpr std::size_t kMostReadings = 16;
  std::map<std::int64_t, std::string> readings;
  for (const auto& [key, words] : table_at("readings", node, "a table of values and words")) {
    const std::string text = setting_text(key);
    const auto value = parse_signed_number(text);
    if (!value) {
      fail_at_setting(key, "'" + printable(text) + "' of 'readings' is no number");
    }
    readings[*value] = text_at(text, words, "words for the value");
  }
  if (readings.size() > kMostReadings) {
    fail_at_line(line_of(node),
                 "'readings' has more than " + std::to_string(kMostReadings) + " values");
  }
  return readings;
}

std::vector<std::pair<Release, std::int64_t>> read_releases(const toml::node& node) {
  std::vector<std::pair<Release, std::int64_t>> releases;
  for (const auto& [key, value] : table_at("releases", node, "a table of releases and values")) {
    const std::string text = setting_text(key);
    const auto release = Release::parse(text);
    if (!release) {
      fail_at_setting(key,
                      "'" + printable(text) + "' of 'releases' is no release, such as \"1.7\"");
    }
    releases.emplace_back(*release, setting_value(text, value));
  }
  std::sort(releases.begin(), releases.end());
  return releases;
}

/// A number, or { variable = number }.
std::map<std::string, std::int64_t> read_fixed(const toml::node& node) {
  if (const auto number = node.value_exact<std::int64_t>()) return {{"", *number}};
  std::map<std::string, std::int64_t> fixed;
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      const auto number = value.value_exact<std::int64_t>();
      if (!number) fail_at_setting(key, "'fixed' has something else than numbers");
      fixed[setting_text(key)] = *number;
    }
  }
  if (fixed.empty())
    fail_at_line(line_of(node), "'fixed' is neither a number nor { variable = number }");
  return fixed;
}

Setting read_setting(const std::string& name, const toml::table& source) {
  const TomlTable table(
      source, "[settings." + name + "]",
      {"keys", "readings", "words", "framework", "releases", "shown_by", "fixed", "otherwise"});
  Setting setting;
  if (table.find("keys") != nullptr) setting.keys = read_map_texts("keys", table.at("keys"));
  if (const toml::node* node = table.find("readings")) setting.readings = read_readings(*node);
  if (const toml::node* node = table.find("words")) {
    for (const auto& [key, value] : table_at("words", *node, "a table of words and values")) {
      setting.words[setting_text(key)] = setting_value(setting_text(key), value);
    }
  }
  if (table.find("framework") != nullptr) setting.framework = read_map_text_at(table, "framework");
  if (const toml::node* node = table.find("releases")) {
    setting.releases = read_releases(*node);
    if (setting.framework.empty()) {
      fail_at_line(table.line(), table.header() + " has 'releases', but no 'framework'");
    }
  }
  if (const toml::node* node = table.find("shown_by")) {
    for (const std::string& side : read_map_texts("shown_by", *node)) {
      if (side != "from" && side != "to") {
        fail_at_line(line_of(*node),
                     "'shown_by' has '" + printable(side) + R"(', expected "from", "to" or both)");
      }
      (side == "from" ? setting.is_shown_by_from : setting.is_shown_by_to) = true;
    }
  }
  if (const toml::node* node = table.find("fixed")) setting.fixed = read_fixed(*node);
  if (const toml::node* node = table.find("otherwise")) {
    setting.otherwise = std::make_shared<const Expression>(
        read_expression("otherwise", *node, ExpressionKind::kCondition));
  }
  return setting;
}

}  // namespace

std::map<std::string, ReleaseProof> read_release_proofs(const toml::table& table) {
  std::map<std::string, ReleaseProof> proofs;
  for (const auto& [key, value] : table) {
    const std::string text = setting_text(key);
    const std::size_t equals = text.find('=');
    ReleaseProof proof{text.substr(0, equals), {}, {}};
    if (equals != std::string::npos) proof.value = parse_signed_number(text.substr(equals + 1));
    if (proof.key.empty() || (equals != std::string::npos && !proof.value)) {
      fail_at_setting(key, "'" + printable(text) + "' of [releases] is neither KEY nor KEY=NUMBER");
    }
    const auto since = Release::parse(text_at(text, value, "a release, such as \"1.7\""));
    if (!since) fail_at_setting(key, "'" + printable(text) + "' has no release, such as \"1.7\"");
    proof.since = *since;
    proofs[text] = std::move(proof);
  }
  return proofs;
}

SettingTable read_settings(const toml::table& table) {
  SettingTable settings;
  for (const auto& [key, value] : table) {
    const std::string name = setting_text(key);
    if (!is_expression_name(name)) {
      fail_at_setting(
          key, "'" + printable(name) + "' of [settings] is no name that expressions can have");
    }
    settings[name] = read_setting(name, table_at(name, value, "a table"));
  }
  return settings;
}

}  // namespace reshardfs::modelmap
