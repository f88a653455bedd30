// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fuse/mount.h"
#include "vfs/tree.h"

namespace reshardfs {

/// What stat(2) and statfs(2) tell. Never waits for storage.
struct stat attributes(const Node& node, const MountOptions& options) noexcept;
struct statvfs statistics(const Tree& tree) noexcept;

}  // namespace reshardfs
