// SPDX-License-Identifier: Apache-2.0
/// Mount points: what may be one, and which paths lead to one.
#pragma once

#include <filesystem>

#include "base/posix/descriptor.h"

namespace reshardfs {

/// Checks that a mount would hide nothing; /dev/fd/N never does.
/// @throws Error kUsage if it would, kIo.
void check_empty(const std::filesystem::path& mountpoint);

/// Checks a mount point before anything is opened: an existing directory, empty unless
/// `allow_nonempty`, not inside `source` and `source` not inside it; or /dev/fd/N of a live mount.
/// @throws Error kUsage or kMissing.
void check_mountpoint(const std::filesystem::path& mountpoint, const std::filesystem::path& source,
                      bool allow_nonempty);

/// The path as in the kernel's list of mounts: absolute and without symbolic links. /dev/fd/N is
/// returned unchanged.
/// @throws Error kIo.
std::filesystem::path real_mountpoint(const std::filesystem::path& mountpoint);

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

/// Whether a path leads to a mount point, also through symbolic links. Does not access the mounted
/// file system, because this would be a request to the process that serves it.
/// @param mountpoint absolute and without symbolic links, or /dev/fd/N as it was given.
bool leads_to_mount(const std::filesystem::path& path, const std::filesystem::path& mountpoint);

}  // namespace reshardfs
