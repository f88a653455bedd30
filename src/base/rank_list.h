// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// Ranks of a job, with room above any that exists: a typing error or a hostile strategy must not
/// fill the memory with ranks.
inline constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

/// "0-3,7" -> {0, 1, 2, 3, 7}: ascending, each rank once.
/// @throws Error kUsage with the part that is wrong.
std::vector<std::int64_t> parse_rank_list(const std::string& text);

/// {0, 1, 2, 3, 7} -> "0-3,7". The input is ascending.
std::string format_rank_list(const std::vector<std::int64_t>& ranks);

}  // namespace reshardfs
