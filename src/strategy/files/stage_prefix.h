// SPDX-License-Identifier: Apache-2.0
/// Pipeline stages in the names of merged strategy files: "<stage>-<parameter>".
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/strategy.h"

#include "strategy/files/raw_strategy.h"

namespace reshardfs {

/// Whether all names of a file begin with "<stage>-". A '-' in only some of them belongs to the
/// names. False if there are none.
bool has_stage_prefixes(const RawStrategy& raw);

/// The layouts of a merged file, by stage.
/// @throws Error kBadInput if a stage is missing or a parameter appears twice in one.
std::vector<StageLayouts> layouts_by_stage(RawStrategy raw);

/// The layouts of a file of one stage.
/// @throws Error kBadInput if a parameter appears twice.
StageLayouts layouts_of_one_stage(RawStrategy raw);

/// The name that a strategy file has for parameter `name` of stage `index`.
std::string name_to_write(const Strategy& strategy, std::int64_t index, const std::string& name);

}  // namespace reshardfs
