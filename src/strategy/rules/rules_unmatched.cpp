// SPDX-License-Identifier: Apache-2.0
/// Rules that select nothing of a checkpoint: most likely a name in them is misspelt, and what it
/// meant is laid out in another way than its author thinks.
#include "strategy/rules/rules_unmatched.h"

#include <algorithm>
#include <cstddef>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/near_name.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

std::string at_line(std::int64_t line) {
  return "line " + std::to_string(line) + ": ";
}

std::string near_words(const std::string& glob, const std::vector<std::string>& names) {
  const auto near = near_glob(glob, names);
  if (!near) return {};
  const std::string name = "'" + printable(near->name) + "'";
  if (near->glob.empty()) return "; the nearest name is " + name;
  return "; did you mean '" + printable(near->glob) + "'? It matches " + name;
}

/// Which rules take a parameter.
std::vector<bool> rules_in_use(const RulesDocument& document,
                               const std::vector<std::string>& names) {
  std::vector<bool> used(document.rules.size(), false);
  std::size_t left = used.size();
  for (const std::string& name : names) {
    if (left == 0) break;
    const auto taking =
        std::find_if(document.rules.begin(), document.rules.end(),
                     [&](const Rule& rule) { return rule.matching_glob(name) != nullptr; });
    if (taking == document.rules.end()) continue;
    const auto number = static_cast<std::size_t>(taking - document.rules.begin());
    left -= used[number] ? 0U : 1U;
    used[number] = true;
  }
  return used;
}

bool matches(const std::string& glob, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return glob_match(glob, name); });
}

void add_rule(const Rule& rule, bool is_used, const std::vector<std::string>& names,
              std::vector<std::string>& lines) {
  bool all_match = true;
  for (const std::string& glob : rule.globs) {
    if (matches(glob, names)) continue;
    all_match = false;
    lines.push_back(at_line(rule.line) + "the rule '" + printable(glob) + "' matches no parameter" +
                    near_words(glob, names));
  }
  // A rule that refuses undecided parameters matches none once decisions stand before it.
  if (is_used || !all_match || rule.undecided) return;
  lines.push_back(at_line(rule.line) + "the rule for " + name_list(rule.globs) +
                  " has no effect: rules before it take all that it matches");
}

void add_layers(const LayerPlacement& layers, const std::vector<std::string>& names,
                std::vector<std::string>& lines) {
  const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return layers.layer_of(name).has_value();
  });
  if (any) return;
  const std::string text = layers.before + "{n}" + layers.after;
  std::string line =
      at_line(layers.line) + "[[layers]] '" + printable(text) + "' is in no parameter's name";
  const auto near = near_glob("*" + glob_of(layers.before) + "[0-9]*", names);
  if (near) line += "; the nearest name is '" + printable(near->name) + "'";
  lines.push_back(std::move(line));
}

}  // namespace

std::vector<std::string> unmatched_by(const RulesDocument& document,
                                      const std::vector<NamedShape>& parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const NamedShape& parameter : parameters) names.push_back(parameter.name);
  std::vector<std::string> lines;
  for (const LayerPlacement& layers : document.layers) {
    if (!layers.optional) add_layers(layers, names, lines);
  }
  const std::vector<bool> used = rules_in_use(document, names);
  for (std::size_t i = 0; i < document.rules.size(); ++i) {
    const Rule& rule = document.rules[i];
    if (!rule.optional) add_rule(rule, used[i], names, lines);
  }
  return lines;
}

}  // namespace reshardfs
