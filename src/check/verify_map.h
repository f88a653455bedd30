// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "check/verify.h"
#include "checkpoint/checkpoint_set.h"
#include "conversion/model_maps.h"

namespace reshardfs {

/// Whether maps fit a set, and whether what they read once for several has one value: tensors that
/// are aliases of others, and elements that the other direction of a map repeats. Reads all of
/// these.
/// @param report gets the problems; what cannot be compared is a warning.
void verify_maps(const ModelMaps& maps, const VerifyOptions& options,
                 const std::shared_ptr<const CheckpointSet>& set, Progress& progress,
                 VerifyReport& report);

}  // namespace reshardfs
