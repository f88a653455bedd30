// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/bounded_check.h"
#include "cli/words/given.h"

namespace reshardfs {

/// What one mount uses: options, source, strategies, mount point, cache and what else it asks for.
/// Mounts nothing, and makes no directory of a cache.
/// @param words of `reshardfs mount`, which may name a configuration file.
Findings check_mount(const std::vector<std::string>& words, const BoundedChecks& bounded);

/// A source alone, as SOURCE of the command: whether it can be opened and its indexes read.
Findings check_source(const std::string& source, const BoundedChecks& bounded);

/// What is read in a mount's words, and in its file.
/// @throws Error kUsage, kMissing as mount does.
Given read_mount(const std::vector<std::string>& words);

/// Whether a path is on a network or FUSE file system, or is a URL. May wait for the file system.
bool is_far(const std::string& source);

}  // namespace reshardfs
