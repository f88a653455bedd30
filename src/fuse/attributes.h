// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fuse/mounting/mount_options.h"
#include "vfs/tree.h"

namespace reshardfs {

/// Whether the size of a file is unknown until its text is made.
bool has_size_to_make(const Node& node) noexcept;

/// The results of stat(2) and statfs(2). Never waits for storage; computes a text if
/// has_size_to_make().
struct stat attributes(const Node& node, const MountOptions& options) noexcept;
/// The same without computing: the size is 0 if it is unknown.
struct stat attributes_at_once(const Node& node, const MountOptions& options) noexcept;
struct statvfs statistics(const Tree& tree) noexcept;

}  // namespace reshardfs
