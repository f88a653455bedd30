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

/// Parameters that a strategy lists and the target should have, but that no source file has; by
/// their names in the target.
struct AbsentNames {
  /// All their ranks lack files, or may lack them: if all files of a pipeline stage are missing and
  /// the source's strategy does not list the parameter, its stage is unknown.
  std::vector<std::string> lost;
  /// Files of ranks that should have them exist: the job has not saved these parameters.
  std::vector<std::string> unsaved;
};

/// @param target nullopt: the target has all parameters that the source's strategy lists.
/// @param filter over names in the target.
AbsentNames absent_names(const SourceTable& source, const std::optional<Strategy>& target,
                         const NameMap& names, const NameFilter& filter);

/// The ranks of pipeline stages without any file, ascending.
std::vector<Rank> ranks_of_lost_stages(const SourceTable& source);

}  // namespace reshardfs
