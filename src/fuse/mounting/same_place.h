// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// Whether a path leads to a mount point, also through symbolic links. Does not access the mounted
/// file system, because this would be a request to the process that serves it.
/// @param mountpoint absolute and without symbolic links, or /dev/fd/N as it was given.
bool leads_to_mount(const std::filesystem::path& path, const std::filesystem::path& mountpoint);

}  // namespace reshardfs
