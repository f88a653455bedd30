// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "fuse/mounting/mount_table.h"

namespace reshardfs {

/// Where a file system that was unmounted at one place is mounted still: its daemon lives on.
struct SurvivingMount {
  std::string mountpoint;  ///< empty: not known
  /// A process in whose mount namespace it is; 0: this one's, or not known.
  pid_t process = 0;
  std::string program;        ///< that process's name
  std::filesystem::path way;  ///< the mount as this process reaches it; empty: it does not
};

/// What is left of a mount after unmount(): in this mount namespace by mount --bind, or in another,
/// as a container has. Touches no mount. Of processes that may not be looked into nothing is known.
std::optional<SurvivingMount> surviving_mount(const MountEntry& unmounted) noexcept;

}  // namespace reshardfs
