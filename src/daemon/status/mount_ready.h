// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reshardfs {

struct Readiness {
  bool ready = false;
  std::string why;  ///< it is not; empty if it is
};

/// Whether the mount at `path` answers, and finds its source as it was when it was mounted. Looks
/// at the mount alone, so that it can be asked from a container that sees neither its process nor
/// how it was mounted. Takes no longer than some 2 s.
/// @throws Error kIo if no process can be started.
Readiness mount_readiness(const std::string& path);

}  // namespace reshardfs
