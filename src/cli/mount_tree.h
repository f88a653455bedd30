// SPDX-License-Identifier: Apache-2.0
/// What a mount shows: one conversion, or one for each step of the source.
#pragma once

#include <memory>

#include "reshardfs/conversion.h"

#include "vfs/step_tree.h"
#include "vfs/tree.h"

namespace reshardfs {

/// The conversion's files.
Tree conversion_tree(const Conversion& conversion);

/// steps/<step>/ with the conversion's files for each complete step, and `latest`. Problems that
/// come up later are logged.
/// @param options its step does not matter.
/// @throws Error if the source has no steps to be found in its file names, or if a strategy cannot
///         be read; steps themselves are not looked into.
std::unique_ptr<StepTree> all_steps_tree(const ConversionOptions& options);

}  // namespace reshardfs
