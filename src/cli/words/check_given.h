// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/engine.h"
#include "cli/words/given.h"

namespace reshardfs {

/// Values, options that exclude or need each other, and what is missing or too much.
/// @throws Error kUsage for the first of them that is wrong.
RESHARDFS_ENGINE void check_given(const Given& given);

}  // namespace reshardfs
