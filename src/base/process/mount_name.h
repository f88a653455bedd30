// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reshardfs {

/// What logs and metrics call the mount of this process.
struct MountName {
  std::string place{};   ///< its mount point; of one without a path, the socket that it came by
  std::string source{};  ///< what it was made from, without anything that may be secret
};

/// Of this process; empty texts before it has a mount. Both may be called by any thread at any
/// time.
MountName mount_name();
void set_mount_name(MountName name);

}  // namespace reshardfs
