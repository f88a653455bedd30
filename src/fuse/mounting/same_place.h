// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// Whether a path leads to a mount point, through symbolic links too. What is mounted is not looked
/// at: that would be a request to the process which serves it.
/// @param mountpoint absolute and without symbolic links; /dev/fd/N is whatever it was given as.
bool leads_to_mount(const std::filesystem::path& path, const std::filesystem::path& mountpoint);

}  // namespace reshardfs
