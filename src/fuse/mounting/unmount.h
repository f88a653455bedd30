// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/posix/mount_table.h"

namespace reshardfs {

/// Unmounts, as root through umount2(2) or as a user through fusermount3.
/// @return what was mounted there.
/// @throws Error kUsage if it is no reshardfs mount, kIo if it is busy or not permitted.
MountEntry unmount(const std::filesystem::path& mountpoint);

}  // namespace reshardfs
