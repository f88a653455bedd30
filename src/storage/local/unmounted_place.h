// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace reshardfs {

/// The mount point that `path` is or lies below by an entry of fstab(5), if nothing is mounted
/// there; the innermost one counts. Empty if there is none, or if the lists cannot be read.
/// @param mounts in the same format: what is mounted.
std::string unmounted_place(const std::filesystem::path& path,
                            const std::filesystem::path& fstab = "/etc/fstab",
                            const std::filesystem::path& mounts = "/proc/self/mounts") noexcept;

/// The command that mounts it, for this user.
std::string mount_command(const std::string& place);

/// "...: mount /data" for a path below such a place; otherwise empty.
std::string mount_it_first(const std::filesystem::path& path);

}  // namespace reshardfs
