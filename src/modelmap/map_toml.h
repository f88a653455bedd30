// SPDX-License-Identifier: Apache-2.0
/// Values of a map file that several tables have. Private to the reader of maps.
///
/// Each function throws Error kBadInput with the line.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/toml/toml_table.h"
#include "modelmap/map_text.h"

namespace reshardfs::modelmap {

/// Calls `parse`; what it throws gets the line of `node`.
template <typename Parse>
auto parse_at(const toml::node& node, const Parse& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    fail_at_line(line_of(node), error.message());
  }
}

/// A number or an expression.
Expression read_expression(std::string_view key, const toml::node& node, ExpressionKind kind);
/// The condition of `when`; none without the key.
Conditions read_when(const TomlTable& table);
Range read_range(const TomlTable& table);
/// The assertions of `require`; none without the key.
Requirements read_requirements(const TomlTable& table);
/// `optional`: a flag, or the words of captures of which it holds.
void read_optional(const TomlTable& table, RuleText& rule);
/// `whole` and `to_whole` of a rule that has its sources and its body.
void read_wholes(const TomlTable& table, RuleText& rule);
/// `stage` of a rule or a block; and of an alias, which is on one side.
StageStatements read_stages(const TomlTable& table);
StageStatement read_stage_of_alias(const TomlTable& table);
bool read_flag(const TomlTable& table, std::string_view key, bool otherwise);
/// A text or a list of texts, none of them empty; at least one.
std::vector<std::string> read_map_texts(std::string_view key, const toml::node& node);
/// A text that is not empty.
std::string read_map_text_at(const TomlTable& table, std::string_view key);

/// [settings].
SettingTable read_settings(const toml::table& table);
/// [releases], by the texts of its keys.
std::map<std::string, ReleaseProof> read_release_proofs(const toml::table& table);

/// What [[map]] says of shapes and operations.
std::shared_ptr<const RuleBody> read_rule_body(const TomlTable& table, std::size_t sources);

}  // namespace reshardfs::modelmap
