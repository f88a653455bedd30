// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/words/given.h"

namespace reshardfs {

/// Values, options that exclude or need each other, and what is missing or too much.
/// @throws Error kUsage for the first of them that is wrong.
void check_given(const Given& given);

}  // namespace reshardfs
