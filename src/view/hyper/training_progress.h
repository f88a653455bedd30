// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "view/view.h"

namespace reshardfs {

/// The number of steps that the training had taken when the source was saved, as the user states
/// it, a counter among the parameters, or the name of the step. In such a name, an epoch, a step
/// that is counted in its epoch, and 0 are none.
/// @throws what the source throws.
std::optional<std::int64_t> training_step(const ViewContext& context);

}  // namespace reshardfs
