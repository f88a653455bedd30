// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check/verify.h"
#include "conversion/source_opening.h"

namespace reshardfs {

/// Whether maps fit a set, and whether what they read once for several has one value: tensors that
/// are aliases of others, and elements that the other direction of a map repeats. Reads all of
/// these.
/// @param report gets the problems; what cannot be compared is a warning.
/// @param opening has the set.
/// @param strategy of the set; nullptr: there is none.
void verify_maps(const SourceOpening& opening, const Strategy* strategy,
                 const VerifyOptions& options, Progress& progress, VerifyReport& report);

}  // namespace reshardfs
