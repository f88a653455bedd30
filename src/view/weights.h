// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "plan/target/target_table.h"
#include "view/view.h"

namespace reshardfs {

/// Selects parameters; empty: all.
using TakesParameter = std::function<bool(const TargetParameter& parameter)>;

/// Selects what is no state of training: neither by the maps nor by its name.
TakesParameter weights_alone(const ViewContext& context);

}  // namespace reshardfs
