// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/source/source_table.h"

namespace reshardfs {

/// Parameters without a stated layout, classified by their bytes. If ranks have different bytes,
/// they have slices; whole parameters are equal on all ranks. Equal bytes whose elements all have
/// one value (norms of ones, moments of zeros) can be either.
struct UnknownParameters {
  std::vector<const SourceParameter*> whole;      ///< equal on all ranks of each stage
  std::vector<const SourceParameter*> following;  ///< states, sliced like their weight
  std::vector<const SourceParameter*> differing;  ///< not equal
  std::vector<const SourceParameter*> constant;   ///< equal, and so are their elements
  std::vector<const SourceParameter*> alone;      ///< on one rank: there is nothing to compare with
  /// For `whole` and `following`: the weight of a state, or an empty text.
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
