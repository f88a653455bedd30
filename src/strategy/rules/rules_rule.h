// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/toml/toml_table.h"
#include "strategy/rules/rules_document.h"

namespace reshardfs {

/// "all", true: -1; "none", false: 0; or a number of parts. As Layout::optimizer_shard_size.
std::int64_t read_optimizer(std::string_view key, const toml::node& node);

/// true or false; `otherwise` if there is no such key.
bool read_flag(const TomlTable& table, std::string_view key, bool otherwise);

/// A text or a list of texts, none of them empty; at least one.
std::vector<std::string> read_texts(std::string_view key, const toml::node& node);

/// @param document with devices and stages.
/// @param default_optimizer of [devices].
/// @throws Error kBadInput with the line.
Rule read_rule(const toml::table& table, const RulesDocument& document,
               std::int64_t default_optimizer);

}  // namespace reshardfs
