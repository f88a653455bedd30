// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "reshardfs/strategy.h"

#include "storage/source_tree.h"

namespace reshardfs {

/// load_strategy() of a path that a user has named, which may be a checkpoint instead.
/// @throws Error kUsage if it is one; what load_strategy() throws.
Strategy load_named_strategy(const std::filesystem::path& path,
                             const SourceTreePtr& tree = nullptr);

}  // namespace reshardfs
