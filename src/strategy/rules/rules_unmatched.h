// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reshardfs/strategy_rules.h"

#include "strategy/rules/rules_document.h"

namespace reshardfs {

/// As StrategyRules::unmatched().
std::vector<std::string> unmatched_by(const RulesDocument& document,
                                      const std::vector<NamedShape>& parameters);

}  // namespace reshardfs
