// SPDX-License-Identifier: Apache-2.0
/// A FUSE descriptor that whoever started the program has opened and mounted already. The name
/// /dev/fd/N stands for it in place of a mount point, as in every program of libfuse.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace reshardfs {

/// The N of "/dev/fd/N".
std::optional<int> fuse_descriptor(const std::filesystem::path& mountpoint);

/// Whether the kernel has ended its connection: unmounted or aborted.
bool has_ended(int descriptor);

/// Why it cannot be served; empty: it can.
std::string fault_of_fuse_descriptor(int descriptor);

/// Checks that one that was inherited can be served.
/// @throws Error kUsage if it is not open, no FUSE descriptor, or of no live mount.
void check_fuse_descriptor(int descriptor);

}  // namespace reshardfs
