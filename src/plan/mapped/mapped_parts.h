// SPDX-License-Identifier: Apache-2.0
/// The number of parts into which strategies cut tensors, for maps that depend on it (`tp` and
/// `from_tp` in reshardfs-map(5)). Cuts of optimizers do not count: the tensor map alone decides
/// which slice of a weight a network uses.
#pragma once

#include <map>
#include <string>

#include "reshardfs/shape.h"
#include "reshardfs/strategy.h"

#include "modelmap/mapping.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// The parts of the destination's tensors. Unknown if several dimensions are cut, one is cut
/// unevenly, or stages differ.
/// @param shapes of the tensors; the parts of other tensors are unknown.
modelmap::PartsOf parts_in(Strategy strategy, std::map<std::string, Shape> shapes);

/// The parts of the source's tensors. Also unknown if no layout is stated, because whole tensors
/// may have been joined from any number of parts; and if the set records its layouts without
/// showing which cuts are an optimizer's.
modelmap::PartsOf parts_in(std::shared_ptr<const SourceTable> source);

/// For a destination of one rank, which has whole tensors: always 1.
modelmap::PartsOf parts_of_one_rank();

/// For tensors that one map makes for another: always unknown.
modelmap::PartsOf parts_between_maps();

}  // namespace reshardfs
