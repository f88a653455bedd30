// SPDX-License-Identifier: Apache-2.0
/// Files of several ranks without a strategy, under a model map. The map takes the first rank's
/// tensors for whole ones, so that the others must hold the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "conversion/model_maps.h"
#include "plan/replicas/replica_check.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// Compares samples of what the ranks hold; nothing where layouts are stated, or no map is given.
/// @return the parameters that differ.
/// @throws Error kBadInput under kSame if most matrices differ: then they are slices.
std::vector<ReplicaDisagreement> compare_mapped_ranks(const SourceTable& source,
                                                      const ModelMaps& maps, Replicas replicas);

/// @param differing of which only those count that are shown.
/// @return warnings, under kFirst.
/// @throws Error kBadInput under kSame if a tensor that is shown is made of one that differs.
std::vector<std::string> settle_mapped_ranks(const std::vector<ReplicaDisagreement>& differing,
                                             const ModelMaps::Result& shown,
                                             const MappedSourceOptions& options, Replicas replicas);

}  // namespace reshardfs
