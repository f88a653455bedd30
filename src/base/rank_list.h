// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

namespace reshardfs {

/// Ranks of a job, with room above any that exists: a typing error or a hostile strategy must not
/// fill the memory with ranks.
inline constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

/// "0-3,7" -> {0, 1, 2, 3, 7}: ascending, each rank once.
/// @throws Error kUsage with the part that is wrong.
std::vector<Rank> parse_rank_list(const std::string& text);

/// {0, 1, 2, 3, 7} -> "0-3,7". The input is ascending.
std::string format_rank_list(const std::vector<Rank>& ranks);
/// "rank 3", "ranks 0-3,7"; the input is ascending.
std::string rank_words(const std::vector<Rank>& ranks);

}  // namespace reshardfs
