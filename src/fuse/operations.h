// SPDX-License-Identifier: Apache-2.0
/// The answers to the kernel's requests.
#pragma once

#include <atomic>

#include "fuse/buffer_pool.h"
#include "fuse/libfuse.h"
#include "fuse/mount.h"
#include "fuse/read_scheduler.h"
#include "vfs/tree.h"

namespace reshardfs {

/// Reads that may run at once. Must stay below kMaxThreads, so that some threads are always free
/// for what is answered from memory.
inline constexpr unsigned kReadPermits = 16;
inline constexpr unsigned kMaxThreads = kReadPermits + 8;

/// What the operations work on: the user data of a FUSE session.
class ServedTree {
 public:
  ServedTree(const Tree& tree, const MountOptions& options);
  ServedTree(const ServedTree&) = delete;
  ServedTree& operator=(const ServedTree&) = delete;
  ~ServedTree() = default;

  const Tree& tree;
  const MountOptions& options;
  BufferPool buffers;
  ReadScheduler reads;
  /// Set when INIT has come; its answer is on the way when the operation returns.
  std::atomic<bool> initialised = false;
};

/// For fuse_session_new(), with a ServedTree as user data.
const fuse_lowlevel_ops& operations();

}  // namespace reshardfs
