// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "reshardfs/strategy.h"

namespace reshardfs {

/// Strategy::load() of a path that a user has named, which may be a checkpoint instead.
/// @throws Error kUsage if it is one; what Strategy::load() throws.
Strategy load_named_strategy(const std::filesystem::path& path,
                             const std::filesystem::path& linkless_root = {});

}  // namespace reshardfs
