// SPDX-License-Identifier: Apache-2.0
/// Source strategies given as sizes: the shapes of slices prove which dimensions were cut.
#pragma once

#include <string>

#include "reshardfs/strategy.h"

#include "checkpoint/checkpoint_set.h"
#include "conversion/model_maps.h"

namespace reshardfs {

/// The strategy of a set that was saved under "tp=4" (and dp, pp). Each slice must have the full
/// shape that the model's configuration gives, or 1/tp of it along the dimension that the maps
/// state for the name. Each stage has the device matrix [dp, tp], and the files show which stage
/// has a parameter. If `sizes` lacks dp, dp follows from the number of ranks.
/// @param maps model maps, with the configuration of the model.
/// @throws Error kUsage if the sizes do not fit the number of ranks, or cuts are not proven; lists
///         these parameters. kUnsupported for ep and opt.
Strategy sized_source(const DerivedSizes& sizes, const CheckpointSet& set, const ModelMaps& maps);

/// A checksum of all layouts: of a strategy that follows from sizes, the maps that the program
/// brings decide what it is.
std::string sum_of(const Strategy& strategy);

}  // namespace reshardfs
