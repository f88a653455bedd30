// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/posix/mount_table.h"

namespace reshardfs {

/// Another place at which a file system is still mounted after it was unmounted at one place, so
/// that its daemon keeps running.
struct SurvivingMount {
  std::string mountpoint;  ///< empty: not known
  /// A process whose mount namespace contains it; 0: this process's namespace, or unknown.
  pid_t process = 0;
  std::string program;        ///< that process's name
  std::filesystem::path way;  ///< the mount's path for this process; empty: not reachable
};

/// Where a mount survives after unmount(): in this mount namespace because of mount --bind, or in
/// another one, such as a container's. Accesses no mount. Processes that may not be inspected are
/// skipped.
std::optional<SurvivingMount> surviving_mount(const MountEntry& unmounted) noexcept;

}  // namespace reshardfs
