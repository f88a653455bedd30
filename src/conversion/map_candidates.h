// SPDX-License-Identifier: Apache-2.0
/// The installed maps that take names of a source, and how well. Private to the choice of maps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "conversion/auto_map.h"
#include "modelmap/mapping.h"

namespace reshardfs {

/// Where rules stand, and what they make: file, line and the names of targets.
using Places = std::set<std::tuple<std::string, std::int64_t, std::string>>;

/// One way to read an installed map, and what it makes of the names.
struct Candidate {
  std::string map{};
  std::vector<std::string> types{};  ///< of models that it is for; empty: of any
  bool keeps_rest = false;           ///< names that no rule takes
  bool is_auto = true;               ///< see ModelMap
  std::string reads{};
  std::string shows{};
  std::size_t taken = 0;
  std::string left{};  ///< the first name that it does not take; empty: it takes all
  Places rules{};      ///< of one that takes all: those that take any
  /// Of one that takes all: rules that should take some, but take none.
  std::size_t idle_rules = 0;
};

/// Whether the map is for one of the types, or states none.
/// @param keeps_rest what stands around a language model may have other names, too: the type has to
///        be that of the whole.
bool is_for(const std::vector<std::string>& types, bool keeps_rest,
            const std::vector<std::string>& model_types);

/// A map between two forms of one framework leads to none that serves or trains by itself.
bool is_between(const modelmap::ModelMap& map);

/// What the map makes of the names in this direction.
Candidate try_map(const modelmap::ModelMap& map, modelmap::Direction direction,
                  const std::vector<modelmap::SourceTensor>& tensors,
                  const modelmap::ModelConfig& config);

/// All maps but those between two forms, in both directions.
std::vector<Candidate> candidates_for(const std::vector<modelmap::ModelMap>& maps,
                                      const std::vector<modelmap::SourceTensor>& tensors,
                                      const modelmap::ModelConfig& config);

/// Leaves those that fit, if there are any.
template <typename Fits>
void prefer(std::vector<Candidate>& candidates, const Fits& fits) {
  if (std::any_of(candidates.begin(), candidates.end(), fits)) {
    std::erase_if(candidates, [&](const Candidate& one) { return !fits(one); });
  }
}

/// Those that take all names, for models of the type, from the program.
std::vector<Candidate> complete_ones(const std::vector<Candidate>& all, const KnownSource& known);

/// Of those that show the same side, the ones that lack the fewest tensors.
std::vector<FittingMap> best_of(const std::vector<Candidate>& complete);

}  // namespace reshardfs
