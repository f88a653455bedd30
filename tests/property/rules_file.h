// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "random_set.h"

namespace property {

/// The strategy of a side as TOML rules (see reshardfs-strategy(5)), in one of the ways in which
/// people would write them.
std::string strategy_rules(const Side& side, Random& random);

}  // namespace property
