// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/posix/descriptor.h"

namespace reshardfs {

/// Keeps a mount's descriptors, so that the mount outlives the process that serves it.
class MountKeeper {
 public:
  MountKeeper() = default;
  MountKeeper(const MountKeeper&) = delete;
  MountKeeper& operator=(const MountKeeper&) = delete;
  virtual ~MountKeeper() = default;

  /// From now on the mount survives this process.
  /// @param requests, state as in MountDescriptors.
  virtual void keep(int fuse, int requests, int state) noexcept = 0;
  /// Closes the kept descriptors, so that the mount ends with this process.
  virtual void release() noexcept = 0;
  /// The keeper's connection that comes with a mount which was taken over.
  virtual void take_connection(Descriptor /*connection*/) noexcept {}
  /// The connection to the keeper, for the process that takes over the mount; -1: none is needed.
  virtual int connection() const noexcept { return -1; }
};

}  // namespace reshardfs
