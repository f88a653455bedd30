// SPDX-License-Identifier: Apache-2.0
#include "modelmap/variables.h"

#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "modelmap/config_keys.h"

namespace reshardfs::modelmap {
bool has_config_keys(const std::string& name) {
  return config_keys(name) != nullptr;
}

std::set<std::string> Variables::with_dependencies(const std::vector<std::string>& names) const {
  return modelmap::with_dependencies(names, table, settings);
}

std::set<std::string> with_dependencies(std::vector<std::string> pending,
                                        const VariableTable& table, const SettingTable& settings) {
  std::set<std::string> all;
  while (!pending.empty()) {
    const std::string name = std::move(pending.back());
    pending.pop_back();
    if (!all.insert(name).second) continue;
    if (const auto defined = table.find(name); defined != table.end()) {
      for (const Expression& expression : defined->second) {
        pending.insert(pending.end(), expression.names().begin(), expression.names().end());
      }
    }
    if (const auto setting = settings.find(name); setting != settings.end()) {
      for (const auto& [by, number] : setting->second.fixed) {
        if (!by.empty()) pending.push_back(by);
      }
      if (setting->second.otherwise) {
        const auto& more = setting->second.otherwise->names();
        pending.insert(pending.end(), more.begin(), more.end());
      }
    }
    const ConfigKeys* known = config_keys(name);
    if (known != nullptr && !known->absent.empty()) {
      const Expression absent = Expression::parse(known->absent);
      pending.insert(pending.end(), absent.names().begin(), absent.names().end());
    }
  }
  return all;
}

std::pair<std::string, std::int64_t> parse_map_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto value = equals == std::string::npos
                         ? std::nullopt
                         : parse_signed_number(std::string_view(text).substr(equals + 1));
  if (!is_expression_name(name) || !value) {
    throw Error(ErrorKind::kUsage, "--map-var has '" + printable(text) +
                                       "', expected NAME=NUMBER, for example heads=32");
  }
  return {name, *value};
}

Release parse_release(const std::string& text) {
  const auto release = Release::parse(text.substr(text.find('=') + 1));
  if (release) return *release;
  throw Error(ErrorKind::kUsage, "--map-var has '" + printable(text) +
                                     "', expected a release, for example release=1.7.0");
}

}  // namespace reshardfs::modelmap
