// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/posix/descriptor.h"

namespace reshardfs {

/// A lock on the mount point, held from before the check that it is empty until something is
/// mounted there. If several processes mount at one place at the same moment, one succeeds, and the
/// others get an error instead of covering its mount.
class MountPlace {
 public:
  /// @param mountpoint without symbolic links; /dev/fd/N is not locked.
  /// @throws Error kUsage if another process has the lock.
  explicit MountPlace(const std::filesystem::path& mountpoint);
  MountPlace(const MountPlace&) = delete;
  MountPlace& operator=(const MountPlace&) = delete;
  /// Releases the lock.
  ~MountPlace() = default;

 private:
  Descriptor directory_;
};

}  // namespace reshardfs
