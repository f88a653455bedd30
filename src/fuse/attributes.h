// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fuse/mount_options.h"
#include "vfs/tree.h"

namespace reshardfs {

/// Whether the size of a file is not known before its text is made.
bool has_size_to_make(const Node& node) noexcept;

/// What stat(2) and statfs(2) tell. Never waits for storage; computes where has_size_to_make().
struct stat attributes(const Node& node, const MountOptions& options) noexcept;
/// The same at once: the size may be 0 for one that is not known.
struct stat attributes_at_once(const Node& node, const MountOptions& options) noexcept;
struct statvfs statistics(const Tree& tree) noexcept;

}  // namespace reshardfs
