// SPDX-License-Identifier: Apache-2.0
/// Source strategies that are sizes: the shapes of slices prove which dimensions were cut.
#pragma once

#include <string>

#include "reshardfs/strategy.h"

#include "checkpoint/checkpoint_set.h"
#include "conversion/model_maps.h"

namespace reshardfs {

/// The strategy of a set that was saved under "tp=4" (and dp, pp): each slice has the full shape
/// that the model's configuration gives, or a tp-th of it along the dimension that maps state for
/// the name. Ranks lie as the device matrix [dp, tp] of each stage has them; the files say which
/// stage has a parameter. Where dp is not named it follows from the number of ranks.
/// @param maps whose configuration counts.
/// @throws Error kUsage for sizes that do not go with the ranks, and that lists the parameters
///         whose cut is not proven; kUnsupported for ep and opt.
Strategy sized_source(const std::string& sizes, const CheckpointSet& set, const ModelMaps& maps);

}  // namespace reshardfs
