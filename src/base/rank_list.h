// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// "0-3,7" -> {0, 1, 2, 3, 7}: ascending, each rank once.
/// @throws Error kUsage with the part that is wrong.
std::vector<std::int64_t> parse_rank_list(const std::string& text);

/// {0, 1, 2, 3, 7} -> "0-3,7". The input is ascending.
std::string format_rank_list(const std::vector<std::int64_t>& ranks);

}  // namespace reshardfs
