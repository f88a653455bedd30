// SPDX-License-Identifier: Apache-2.0
/// The parts of a written rules file other than cuts: the places of layers, and the parameters of
/// each rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/strategy.h"

#include "strategy/rules/rules_document.h"

namespace reshardfs {

/// The [[layers]] that say the stages of as many parameters of a strategy as possible, most
/// specific first. Empty if there is one stage.
std::vector<LayerPlacement> placements_of(const Strategy& strategy);

/// Where `placements` put a parameter that its rule puts nowhere: in its layer's stage, else in
/// all. A layer that has no stage gives {-1}.
std::vector<std::int64_t> placed_stages(const std::vector<LayerPlacement>& placements,
                                        const std::string& name, std::int64_t stage_count);

/// "[[layers]]" with its keys.
std::string placement_text(const LayerPlacement& placement, std::int64_t stage_count);

/// @throws Error kUnsupported for a name that no rule can match.
void check_rule_name(const std::string& name);

/// The value of `match`: one glob, or a list, on several lines if it is long.
std::string globs_value(const std::vector<std::string>& globs);

}  // namespace reshardfs
