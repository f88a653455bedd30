// SPDX-License-Identifier: Apache-2.0
/// A FUSE descriptor that a privileged program hands over through a Unix socket.
///
/// Either side may listen, because programs differ in this. All of them use a stream socket, and
/// send one descriptor (SCM_RIGHTS) with a message that says how to mount. reshardfs ignores this
/// message, because its command line says how to mount.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>

#include "base/posix/descriptor.h"

namespace reshardfs {

struct FuseSocket {
  std::filesystem::path path;
  /// Whether this process creates the socket and the other one connects; false: the other way
  /// round.
  bool listens = false;
};

/// @param text "PATH" or "listen:PATH".
/// @throws Error kUsage if there is no path.
FuseSocket parse_fuse_socket(const std::string& text);

struct HandedDescriptor {
  /// Checked and close-on-exec. The code that serves it must close it.
  int fuse = -1;
  /// Keep it open while the mount is served: closing it tells the other side, which has no
  /// descriptor of the mount any more, that the mount is dead.
  Descriptor connection;
};

/// Waits for the other side, and for one descriptor of a live mount. Call this while the process
/// has one thread. A socket that this process creates is accessible only to its user, and is
/// removed at the end.
/// @param stop ends the wait when it becomes true; checked every 50 ms.
/// @throws Error kIo if this takes longer than `patience`, is stopped, or the other side sends
///         anything but one descriptor; kUsage if the descriptor does not belong to a live mount,
///         or the path is not a socket.
HandedDescriptor receive_fuse_descriptor(const FuseSocket& socket, std::chrono::seconds patience,
                                         const std::atomic<bool>& stop);

}  // namespace reshardfs
