// SPDX-License-Identifier: Apache-2.0
/// The answers to opening and closing files.
#pragma once

#include <functional>

#include "fuse/libfuse.h"
#include "vfs/inode_number.h"

namespace reshardfs {

/// Work on a file that may wait for storage.
struct FileTask {
  InodeNumber inode = 0;
  std::function<void()> run;  ///< must not throw
};

/// Adds open and release.
void add_open_operations(fuse_lowlevel_ops& ops);

}  // namespace reshardfs
