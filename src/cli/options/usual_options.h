// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "cli/options/option.h"

namespace reshardfs {

/// The options that most uses of a command need: what -h lists. None: it lists all, as --help does.
std::vector<const Option*> usual_options(const Command& command);

}  // namespace reshardfs
