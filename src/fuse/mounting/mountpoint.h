// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// Makes sure that a mount would hide nothing; /dev/fd/N hides nothing.
/// @throws Error kUsage if it would, kIo.
void check_empty(const std::filesystem::path& mountpoint);

/// Checks a mount point before anything is opened: an existing directory, empty unless
/// `allow_nonempty`, not inside `source` and `source` not inside it; or /dev/fd/N of a live mount.
/// @throws Error kUsage or kMissing.
void check_mountpoint(const std::filesystem::path& mountpoint, const std::filesystem::path& source,
                      bool allow_nonempty);

/// As the kernel's list of mounts will show it: absolute and without symbolic links. /dev/fd/N
/// stays as it is.
/// @throws Error kIo.
std::filesystem::path real_mountpoint(const std::filesystem::path& mountpoint);

}  // namespace reshardfs
