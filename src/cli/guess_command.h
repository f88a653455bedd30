// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace reshardfs {

/// "strategy guess".
void add_guess_verb(CLI::App& strategy, CommandAction& action);

}  // namespace reshardfs
