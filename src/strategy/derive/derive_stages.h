// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reshardfs/strategy.h"

#include "strategy/derive/layer_stages.h"

namespace reshardfs {

/// The parameters of a target stage, each with the stage of the source that has its layout.
using StageSources = std::map<std::string, std::int64_t>;

/// Cuts the layers of a strategy by stage anew. With as many stages as before nothing moves, unless
/// `wanted` says where layers are.
/// @param wanted how many layers each target stage has; empty: as even as possible.
/// @return one for each target stage.
/// @throws Error kBadInput if the place of a parameter cannot be known, naming parameters; kUsage
///         for a wrong number of layers.
std::vector<StageSources> restage(const Strategy& source, std::int64_t target_stages,
                                  const StageLayers& wanted);

}  // namespace reshardfs
