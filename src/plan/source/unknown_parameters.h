// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/source/source_table.h"

namespace reshardfs {

/// What the bytes tell of parameters of which nothing says how they are laid out. Slices that
/// differ are slices; equal ones that are no slices have no reason to differ. Equal ones whose
/// elements all have one value (norms of ones, moments of zeros) could be either.
struct UnknownParameters {
  std::vector<const SourceParameter*> whole;      ///< equal on all ranks of each stage
  std::vector<const SourceParameter*> following;  ///< states, sliced as their weight is
  std::vector<const SourceParameter*> differing;  ///< not equal
  std::vector<const SourceParameter*> constant;   ///< equal, and so are their elements
  std::vector<const SourceParameter*> alone;      ///< on one rank: there is nothing to compare with
  /// Of the first two: the weight of a state, else an empty text.
  std::map<std::string, std::string> like;
};

/// Reads all of them, in parallel.
/// @param parameters arrays without a layout, of a table with a strategy.
/// @param prefixes see weight_of().
/// @throws what the sources throw.
UnknownParameters examine_unknown(const SourceTable& table,
                                  const std::vector<const SourceParameter*>& parameters,
                                  const std::vector<std::string>& prefixes);

}  // namespace reshardfs
