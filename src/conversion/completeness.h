// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/target/target_table.h"

namespace reshardfs {

/// Checks that every byte of the destination ranks' files has a source.
/// @throws Error kMissing naming the missing source ranks and the parameters.
void require_complete(const TargetTable& target, const std::vector<Rank>& ranks);

}  // namespace reshardfs
