// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reshardfs/conversion.h"

namespace reshardfs {

/// The source ranks of a traffic list, each once.
std::vector<Rank> ranks_of(const std::vector<SourceTraffic>& traffic);

/// {"rank": r, "needed_ranks": [...], "sources": [{"rank", "file", "bytes"}, ...]}: what a plan
/// says of a destination rank.
nlohmann::ordered_json plan_json(Rank rank, const std::vector<SourceTraffic>& traffic);

}  // namespace reshardfs
