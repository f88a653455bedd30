// SPDX-License-Identifier: Apache-2.0
/// Strategy rules for tests.
#pragma once

#include <string>
#include <vector>

#include "reshardfs/strategy_rules.h"

#include "strategy_samples.h"

namespace reshardfs::testing {

inline StrategyRules rules_of(const std::string& text) {
  const TemporaryDirectory directory;
  return StrategyRules::load(directory.write("rules.toml", text));
}

/// What `action` says, after the name of the file.
template <typename Action>
std::string refusal_of(const Action& action, ErrorKind kind = ErrorKind::kBadInput) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_FALSE(error.file().empty()) << error.what();
    const std::string text = error.what();
    return text.substr(std::min(text.size(), error.file().size() + 2));
  }
  return "accepted";
}

/// What loading these rules says.
inline std::string rules_refusal(const std::string& text) {
  return refusal_of([&] { rules_of(text); });
}

/// What applying these rules to one parameter says.
inline std::string apply_refusal(const std::string& text, const NamedShape& parameter) {
  const StrategyRules rules = rules_of(text);
  return refusal_of([&] { rules.apply({parameter}); });
}

/// [devices] of 2 x 4 and, from line 3 on, one rule.
inline std::string with_rule(const std::string& rule) {
  return "[devices]\naxes = ['dp=2', 'tp=4']\n[[rule]]\n" + rule + "\n";
}

/// The layout that one rule gives to a parameter "w".
inline Layout layout_by_rule(const std::string& rule, const Shape& shape) {
  return rules_of(with_rule("match = 'w'\n" + rule)).apply({{"w", shape}}).stage(0).at("w");
}

}  // namespace reshardfs::testing
