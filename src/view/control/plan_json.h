// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reshardfs/conversion.h"

#include "base/json/json_writer.h"

namespace reshardfs {

/// The source ranks of a traffic list, each once.
std::vector<Rank> ranks_of(const std::vector<SourceTraffic>& traffic);

/// Writes {"rank": r, "needed_ranks": [...], "sources": [{"rank", "file", "bytes"}, ...]}: the plan
/// for one destination rank.
void write_plan(JsonWriter& json, Rank rank, const std::vector<SourceTraffic>& traffic);

}  // namespace reshardfs
