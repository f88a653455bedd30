// SPDX-License-Identifier: Apache-2.0
/// --map auto: the installed map whose names a source has.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reshardfs/model_map.h"

#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// The name of the only installed map that takes all tensors, read in either direction. What
/// training keeps beside weights, and what a map drops, does not count.
/// @param names of the tensors of a source.
/// @throws Error kUsage that names the maps, if several take all or none does.
std::string only_map_for(const std::vector<std::string>& names);

/// Puts that map in the place of "auto"; does nothing if "auto" is not there.
/// @param source and options open the checkpoint.
/// @throws Error kUsage if there are other maps; what CheckpointSet::open() and only_map_for()
///         throw.
void settle_auto_map(ModelMapOptions& maps, const std::filesystem::path& source,
                     const CheckpointOptions& options);

}  // namespace reshardfs
