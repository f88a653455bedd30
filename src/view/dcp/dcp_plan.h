// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "view/dcp/box_plan.h"
#include "view/view.h"

namespace reshardfs {

/// What is common to the forms of torch.distributed.checkpoint: as the options ask for it.
/// @throws Error as BoxPlan, and kMissing if a part of what is shown is in no source file.
BoxPlan box_plan(const ViewContext& context);

/// The files of a plan that are shown, ascending. Adds warnings about what the checkpoint lacks.
/// @param directory as users see it: "dcp/".
std::vector<std::size_t> shown_files(const ViewContext& context, const BoxPlan& plan,
                                     const std::string& directory);

}  // namespace reshardfs
