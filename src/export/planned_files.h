// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "export/share.h"

namespace reshardfs {

/// The files that an export writes: all except hidden files and files whose contents change.
std::vector<const OutputFile*> exported_files(const Conversion& conversion);

/// What the names of ranks' directories begin with.
inline constexpr const char* kRankPrefix = "rank_";

/// The first name of a path.
std::string top_of(const std::string& path);

/// The files that one run of an export writes, independent of the target.
struct PlannedFiles {
  /// @param wanted nothing: all files.
  /// @throws Error kInternal if a path could lead out of the directory.
  PlannedFiles(const Conversion& conversion, const std::optional<Share>& wanted);

  std::vector<const OutputFile*> files;  ///< of the share
  std::optional<SharePlan> share;
  std::set<std::string> tops;  ///< the first names of all paths, those of other shares, too
};

}  // namespace reshardfs
