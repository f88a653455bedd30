// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reshardfs {

/// "'a', 'b', 'c', 'd', 'e' and 7 more": names for a message, cut short.
std::string name_list(const std::vector<std::string>& names, std::size_t shown = 5);

/// "1 dimension", "3 dimensions".
std::string counted(std::size_t count, const std::string& singular);

}  // namespace reshardfs
