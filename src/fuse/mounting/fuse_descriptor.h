// SPDX-License-Identifier: Apache-2.0
/// A FUSE descriptor that the caller of the program has already opened and mounted. Its name
/// /dev/fd/N takes the place of a mount point, as in every program that uses libfuse.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace reshardfs {

/// The N of "/dev/fd/N".
std::optional<int> fuse_descriptor(const std::filesystem::path& mountpoint);

/// Whether the kernel has ended its connection because it was unmounted or aborted.
bool has_ended(int descriptor);

/// The reason why it cannot be served; empty: it can.
std::string fault_of_fuse_descriptor(int descriptor);

/// Checks that an inherited descriptor can be served.
/// @throws Error kUsage if it is not open, not a FUSE descriptor, or does not belong to a live
///        mount.
void check_fuse_descriptor(int descriptor);

}  // namespace reshardfs
