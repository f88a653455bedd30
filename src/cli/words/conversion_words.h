// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/conversion.h"

#include "base/engine.h"
#include "cli/words/given.h"

namespace reshardfs {

/// Of all commands that look at a source under a target strategy. Sets up the access to sources,
/// too: see apply_storage(). Paths are made absolute, so that they hold after a daemon has left the
/// working directory.
/// @throws Error kUsage, kMissing.
RESHARDFS_ENGINE ConversionOptions conversion_options(const Given& given);

}  // namespace reshardfs
