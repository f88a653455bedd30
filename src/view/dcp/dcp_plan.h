// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "view/dcp/box_plan.h"
#include "view/view.h"

namespace reshardfs {

/// The plan that all forms of torch.distributed.checkpoint share, made from the options.
/// @throws Error as BoxPlan; kMissing if no source file has a part of a shown tensor.
BoxPlan box_plan(const ViewContext& context, const BoxScope& scope = {});

/// The files of a plan that are shown, ascending. Adds warnings about what the checkpoint lacks.
/// @param directory the path that users see, for example "dcp/".
std::vector<std::size_t> shown_files(const ViewContext& context, const BoxPlan& plan,
                                     const std::string& directory);

}  // namespace reshardfs
