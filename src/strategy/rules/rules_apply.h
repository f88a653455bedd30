// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/strategy_rules.h"

#include "strategy/rules/rules_document.h"

namespace reshardfs {

/// Larger files of rules are not read.
inline constexpr std::uint64_t kMaxRulesBytes = std::uint64_t{1} << 20;

/// As StrategyRules::apply(); errors do not name the file.
Strategy apply_rules(const RulesDocument& document, const std::vector<NamedShape>& parameters);
/// As StrategyRules::apply_to_source(); errors do not name the file.
Strategy apply_rules_to_source(const RulesDocument& document,
                               const std::vector<NamedShape>& parameters, const LaidOutLike& like);

/// The parameters that rules with `undecided` take.
std::vector<RuleMatch> undecided_by(const RulesDocument& document,
                                    const std::vector<NamedShape>& parameters);

}  // namespace reshardfs
