// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "storage/descriptor_pool.h"

namespace reshardfs {

/// Who keeps a mount's descriptors, so that the mount outlives the process that serves it.
class MountKeeper {
 public:
  MountKeeper() = default;
  MountKeeper(const MountKeeper&) = delete;
  MountKeeper& operator=(const MountKeeper&) = delete;
  virtual ~MountKeeper() = default;

  /// From now on the mount survives this process.
  /// @param requests, state as in MountDescriptors.
  virtual void keep(int fuse, int requests, int state) noexcept = 0;
  /// The mount ends with this process: its descriptors are to be closed.
  virtual void release() noexcept = 0;
  /// The keeper's connection that comes with a mount which was taken over.
  virtual void take_connection(Descriptor /*connection*/) noexcept {}
  /// The connection to the keeper, for who takes the mount over; -1: it needs none.
  virtual int connection() const noexcept { return -1; }
};

}  // namespace reshardfs
