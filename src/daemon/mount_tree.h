// SPDX-License-Identifier: Apache-2.0
/// What a mount shows: one conversion, or one for each step of the source.
#pragma once

#include <memory>
#include <optional>

#include "reshardfs/conversion.h"

#include "vfs/step_tree.h"
#include "vfs/tree.h"

namespace reshardfs {

/// The conversion's files. @param version as of TreeBuilder.
Tree conversion_tree(const Conversion& conversion, std::uint64_t version = 0);

/// steps/<step>/ with the conversion's files for each complete step, and `latest`. Problems that
/// come up later are logged.
/// @param options its step does not matter.
/// @throws Error if the source has no steps to be found in its file names, or if a strategy cannot
///         be read; what a single step lacks is logged.
/// @param before where another process has stopped, if this one goes on.
std::unique_ptr<StepTree> all_steps_tree(const ConversionOptions& options,
                                         const std::optional<StepTree::GoingOn>& before = {});

}  // namespace reshardfs
