// SPDX-License-Identifier: Apache-2.0
/// A save writes its table or tracker last. A newer data file belongs to another save, or was
/// changed later.
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
  /// How many sets of this size a copy may have written since then.
  std::uint64_t sets_since = 0;
};

/// A line that names the first file that is too new; nullopt if there is none. Copying gives files
/// new times one after the other, so a gap counts only if it is longer than a slow copy of the next
/// file would take.
/// @param files of the set; without a source: could not be opened.
std::optional<std::string> newer_than_table(const Discovery& found,
                                            std::span<const RankFile> files);

}  // namespace reshardfs
