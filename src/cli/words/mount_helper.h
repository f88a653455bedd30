// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

/// mount(8) runs `/sbin/mount.reshardfs SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o list]
/// [-t type]` for `mount -t reshardfs` and for lines of /etc/fstab. Called by such a name, the
/// arguments of 'reshardfs mount' for it; else nothing.
/// @param program argv[0].
/// @throws Error kUsage.
std::optional<std::vector<std::string>> mount_helper_arguments(
    const std::string& program, const std::vector<std::string>& arguments);

}  // namespace reshardfs
