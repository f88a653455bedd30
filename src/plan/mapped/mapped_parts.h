// SPDX-License-Identifier: Apache-2.0
/// Into how many parts strategies cut tensors, for maps whose tensors depend on it (`tp` and
/// `from_tp` of reshardfs-map(5)). Cuts of optimizers do not count: a network's slice of a weight
/// is what the tensor map gives.
#pragma once

#include <map>
#include <string>

#include "reshardfs/shape.h"
#include "reshardfs/strategy.h"

#include "modelmap/mapping.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// Of the destination's tensors. Unknown where several dimensions are cut, one is cut unevenly, or
/// stages differ.
/// @param shapes of the tensors; of others nothing is known.
modelmap::PartsOf parts_in(Strategy strategy, std::map<std::string, Shape> shapes);

/// Of the source's. Unknown besides where no layout is stated: whole tensors may have been joined
/// of any number of parts; and where the set records its layouts and it cannot be told which cuts
/// are an optimizer's.
modelmap::PartsOf parts_in(std::shared_ptr<const SourceTable> source);

/// Of a destination for one rank, which has whole tensors: 1 of each.
modelmap::PartsOf parts_of_one_rank();

/// Of tensors that one map makes for another: nothing states how they would be cut.
modelmap::PartsOf parts_between_maps();

}  // namespace reshardfs
