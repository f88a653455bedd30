// SPDX-License-Identifier: Apache-2.0
#include "modelmap/switch_proofs.h"

#include <algorithm>
#include <utility>

namespace reshardfs::modelmap {

void claim(Claims& claims, const std::string& name, std::int64_t value, const std::string& origin) {
  const auto [known, is_new] = claims.emplace(name, Known<std::int64_t>::derived(value, origin));
  if (is_new || !known->second || *known->second == value) return;
  known->second = Known<std::int64_t>::unknown(
      "unknown variable '" + name + "': it is " + std::to_string(*known->second) + " by " +
      known->second.origin() + ", but " + std::to_string(value) + " by " + origin);
}

bool settle(Claims claims, Variables& variables) {
  bool any = false;
  for (auto& [name, value] : claims) any = variables.proven.emplace(name, value).second || any;
  return any;
}

bool is_unknown(const std::string& name, const Variables& variables) {
  try {
    return !Scope(variables).is_known(name) && !variables.proven.contains(name);
  } catch (const Error&) {
    return false;  // what is wrong with it will be told where it is needed
  }
}

std::optional<bool> holds(const Conditions& conditions, const Variables& variables) {
  const Scope scope(variables);
  bool all_known = true;
  for (const auto& condition : conditions) {
    try {
      if (scope.evaluate(*condition) == 0) return false;
    } catch (const Error&) {
      all_known = false;
    }
  }
  return all_known ? std::optional(true) : std::nullopt;
}

void add_patterns(PatternIndex& index, const SourceNames& names, const Variables& variables,
                  std::size_t number) {
  const Scope scope(variables);
  const NameLookup look_up = scope.lookup();
  const MapRule& rule = names.map.rules[number];
  try {
    if (!names.is_forward) return index.add({&rule.to, rule.to.numberings(look_up), number, 0});
    for (std::size_t k = 0; k < rule.from.size(); ++k) {
      index.add({&rule.from[k], rule.from[k].numberings(look_up), number, k});
    }
  } catch (const Error&) {
    // Without its variables it takes no name.
  }
}

SwitchProofs::SwitchProofs(const SourceNames& names, Variables& variables)
    : names_(names), variables_(variables) {
  for (const MapRule& rule : names_.map.rules) add(rule.when, &rule);
  for (const MapAlias& alias : names_.map.aliases) add(alias.when, nullptr);
}

/// Names of which conditions consist. Others may be misspelled.
void SwitchProofs::add(const Conditions& conditions, const MapRule* rule) {
  for (const auto& condition : conditions) {
    for (const std::string& name : condition->names()) {
      const bool is_capture =
          rule != nullptr &&
          std::any_of(rule->captures.begin(), rule->captures.end(),
                      [&](const RuleCapture& capture) { return capture.name == name; });
      const bool has_values = names_.map.settings.contains(name) || has_config_keys(name) ||
                              names_.map.variables.contains(name);
      if (has_values && !is_capture && condition->names().size() == 1) switches_.insert(name);
    }
  }
}

/// Whether the source itself is to show it.
bool SwitchProofs::is_shown(const std::string& name) const {
  const auto setting = names_.map.settings.find(name);
  return setting != names_.map.settings.end() && setting->second.is_shown_by(names_.is_forward);
}

bool SwitchProofs::is_open(const std::string& name) const {
  return is_shown(name) ? !variables_.shown.contains(name) : is_unknown(name, variables_);
}

bool SwitchProofs::any_open() const {
  return std::any_of(switches_.begin(), switches_.end(),
                     [this](const std::string& name) { return is_open(name); });
}

SwitchProofs::Reading SwitchProofs::read(const std::string& name, std::int64_t value) const {
  Variables variables = variables_;
  variables.shown.insert_or_assign(name, Known<std::int64_t>::stated(value, {}));
  PatternIndex rules;
  for (std::size_t i = 0; i < names_.map.rules.size(); ++i) {
    // What is not known otherwise may hold.
    if (holds(names_.map.rules[i].when, variables) != std::optional(false)) {
      add_patterns(rules, names_, variables, i);
    }
  }
  PatternIndex aliases;
  const Scope scope(variables);
  for (const MapAlias& alias : names_.map.aliases) {
    if (alias.is_from != names_.is_forward || holds(alias.when, variables) != std::optional(true)) {
      continue;
    }
    try {
      aliases.add({&alias.name, alias.name.numberings([&](const std::string& used) {
                     return scope.value(used);
                   }),
                   0, 0});
    } catch (const Error&) {
      // Without its variables it takes no name.
    }
  }
  Reading reading{value, std::vector<Use>(names_.tensors.size(), Use::kNone)};
  const std::vector<bool>& always = taken_always();
  for (std::size_t i = 0; i < names_.tensors.size(); ++i) {
    const std::string_view full = names_.tensors[i].name;
    if (aliases.takes(full)) {
      reading.uses[i] = Use::kHidden;
    } else if (always[i] || takes(rules, i)) {
      reading.uses[i] = Use::kTaken;
    }
  }
  return reading;
}

/// By name or by the name without a state's prefix.
bool SwitchProofs::takes(const PatternIndex& rules, std::size_t tensor) const {
  const std::string& name = names_.tensors[tensor].name;
  return takes(rules, tensor, name) ||
         (names_.bare[tensor] != name && takes(rules, tensor, names_.bare[tensor]));
}

/// Rules of another number of dimensions are for other forms of the tensor.
bool SwitchProofs::takes(const PatternIndex& rules, std::size_t tensor,
                         std::string_view name) const {
  if (names_.is_forward) return rules.takes(name);
  const auto all = rules.matches(name);
  return std::any_of(all.begin(), all.end(), [&](const PatternIndex::Match& match) {
    const auto& shape = names_.map.rules[match.entry->rule].body->to_shape;
    return !shape || shape->size() == names_.tensors[tensor].shape.size();
  });
}

/// The tensors that rules without conditions take, whatever the variables are: nearly all.
const std::vector<bool>& SwitchProofs::taken_always() const {
  if (!always_.empty()) return always_;
  const auto is_free = [](const Pattern& pattern) {
    const auto& captures = pattern.captures();
    return std::none_of(captures.begin(), captures.end(),
                        [](const auto& capture) { return !capture.is_plain(); });
  };
  PatternIndex rules;
  for (std::size_t i = 0; i < names_.map.rules.size(); ++i) {
    const MapRule& rule = names_.map.rules[i];
    const bool all_free = names_.is_forward
                              ? std::all_of(rule.from.begin(), rule.from.end(), is_free)
                              : is_free(rule.to);
    if (rule.when.empty() && all_free) add_patterns(rules, names_, variables_, i);
  }
  always_.resize(names_.tensors.size());
  for (std::size_t i = 0; i < names_.tensors.size(); ++i) always_[i] = takes(rules, i);
  return always_;
}

std::vector<std::int64_t> SwitchProofs::values_of(const std::string& name) const {
  const auto setting = names_.map.settings.find(name);
  if (setting == names_.map.settings.end() || setting->second.readings.empty()) return {0, 1};
  std::vector<std::int64_t> values;
  for (const auto& [value, words] : setting->second.readings) values.push_back(value);
  return values;
}

/// A reading that leaves out a tensor which another one uses is none. Of those that are left, one
/// that reads what others take for a copy gives the same bytes if it is a copy, and the right
/// ones if it is not.
void SwitchProofs::prove_switch(const std::string& name, Claims& claims) const {
  std::vector<Reading> readings;
  for (const std::int64_t value : values_of(name)) readings.push_back(read(name, value));
  const auto is_used = [](Use use) { return use != Use::kNone; };
  const auto is_taken = [](Use use) { return use == Use::kTaken; };
  const auto by_any = [&](const auto& counts) {
    std::vector<bool> tensors(names_.tensors.size());
    for (const Reading& reading : readings) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (counts(reading.uses[i])) tensors[i] = true;
      }
    }
    return tensors;
  };
  const std::vector<bool> used = by_any(is_used);
  const std::vector<bool> taken = by_any(is_taken);
  std::string evidence;
  // Those in which all of these tensors count.
  const auto keep_those = [&](const std::vector<bool>& all, const auto& counts) {
    std::vector<Reading> kept;
    for (Reading& reading : readings) {
      const std::string* missing = nullptr;  // the first by name
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i] || counts(reading.uses[i])) continue;
        if (missing == nullptr || names_.tensors[i].name < *missing)
          missing = &names_.tensors[i].name;
      }
      if (missing == nullptr) {
        kept.push_back(reading);
      } else if (evidence.empty()) {
        evidence = *missing;
      }
    }
    if (!kept.empty()) readings = std::move(kept);
  };
  keep_those(used, is_used);
  if (readings.size() > 1) keep_those(taken, is_taken);
  if (readings.size() != 1 || evidence.empty()) return;
  claim(claims, name, readings[0].value,
        "the source has '" + printable(evidence) + "', which no other value reads");
}

bool SwitchProofs::prove() {
  Claims claims;
  Claims shown;
  for (const std::string& name : switches_) {
    if (is_open(name)) prove_switch(name, is_shown(name) ? shown : claims);
  }
  const std::size_t known = variables_.shown.size();
  variables_.shown.merge(shown);
  return settle(std::move(claims), variables_) || variables_.shown.size() > known;
}

}  // namespace reshardfs::modelmap
