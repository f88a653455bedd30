// SPDX-License-Identifier: Apache-2.0
/// Sets to which something has been done that the program must either bear or name: a file that is
/// missing, a strategy that is silent about a tensor, an option that selects nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "random_set.h"

namespace property {

/// What has been done to a set, and how the program may answer.
struct Doubt {
  std::string kind;
  std::string what;
  bool may_refuse = true;
  bool may_serve = true;
  /// A refusal names one of these.
  std::vector<std::string> names{};
  /// What may be left out if a warning or a note names it.
  std::optional<std::string> may_leave_out{};
  /// No strategy lists names, so that nothing tells of one that is left out.
  bool is_listed_nowhere = false;
  /// Its slices are the same on all ranks, so that nothing tells a slice from a whole.
  std::optional<std::string> undecidable{};
};

/// Does one thing to the source below `directory`, to the strategies or to the options.
/// @param options as they are for the untouched set.
Doubt cast_doubt(const RandomSet& set, const std::filesystem::path& directory,
                 reshardfs::ConversionOptions& options, Random& random);

}  // namespace property
