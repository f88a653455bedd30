// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

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

}  // namespace reshardfs
