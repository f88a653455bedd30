// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reshardfs/rank.h"
#include "reshardfs/strategy.h"

#include "base/text/glob.h"
#include "plan/source/source_table.h"
#include "plan/target/name_map.h"

namespace reshardfs {

/// Parameters that a strategy lists and the target should have, but no source file has. Names in
/// the target.
struct AbsentNames {
  /// Every rank that has them is without a file, or may be: where all files of a pipeline stage are
  /// missing and the source's strategy is one of rules, nothing states what was in them.
  std::vector<std::string> lost;
  /// Files of ranks that should have them are there: the job has not saved them.
  std::vector<std::string> unsaved;
};

/// @param target nothing: the target has all that the source's strategy lists.
/// @param filter over names in the target.
AbsentNames absent_names(const SourceTable& source, const std::optional<Strategy>& target,
                         const NameMap& names, const NameFilter& filter);

/// The ranks of pipeline stages of which no rank has a file, ascending.
std::vector<Rank> ranks_of_lost_stages(const SourceTable& source);

}  // namespace reshardfs
