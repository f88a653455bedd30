// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

/// Whether each file has the names that stand beside its number, in their order, and no others: so
/// it is in most sets, and a million names need not be looked up.
/// @param places, files as of take_places().
bool are_all_in_place(const std::vector<std::pair<std::string_view, std::size_t>>& places,
                      const std::vector<RankFile>& files);

/// Where an index names the file of each parameter, other files may have it, too: the index
/// decides. Takes such parameters out of the indexes of the other files.
/// @param places parameter names, and the numbers of their files.
/// @param files each with its index; those without one are passed over.
/// @return the names that were taken out of a file.
std::vector<std::string> take_places(
    const std::vector<std::pair<std::string_view, std::size_t>>& places,
    std::vector<RankFile>& files);

/// The warning about these names, at least one: the other file may be of another save.
std::string in_two_files(const std::vector<std::string>& names);

}  // namespace reshardfs
