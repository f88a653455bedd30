// SPDX-License-Identifier: Apache-2.0
/// Saves write a table or a tracker after all else. A data file that is newer is of another save,
/// or was changed later.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

struct Discovery;

struct WrittenLast {
  std::filesystem::path path;
  std::int64_t mtime_ns = 0;  ///< since the epoch; 0: not known
  /// How many sets of the size of the one at hand a copy may have written since.
  std::uint64_t sets_since = 0;
};

/// A line that names the first file which is too new; nothing if none is. Copies give files new
/// times, one after the other: a gap counts only if it is longer than a slow copy of what comes
/// next would take.
/// @param files of the set; without a source: could not be opened.
std::optional<std::string> newer_than_table(const Discovery& found,
                                            std::span<const RankFile> files);

}  // namespace reshardfs
