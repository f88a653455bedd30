// SPDX-License-Identifier: Apache-2.0
/// The keys under which config.json has what maps know by one name: the table that
/// config/maps/parts/config-keys.toml is, built into the program.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace reshardfs::modelmap {

struct ConfigKeys {
  std::vector<std::string> keys{};  ///< the first that stands counts
  /// What a config.json without any of the keys means by that: an expression; empty: nothing.
  /// Without a config.json, the name is unknown.
  std::string absent{};
  std::set<std::string> except{};  ///< types for which `absent` does not hold: shapes have to tell
  std::set<std::string> only{};    ///< if not empty, the types for which it does
};

/// nullptr: config.json has the name itself, or nothing of it.
const ConfigKeys* config_keys(const std::string& name);

}  // namespace reshardfs::modelmap
