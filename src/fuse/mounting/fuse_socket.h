// SPDX-License-Identifier: Apache-2.0
/// A FUSE descriptor that a privileged program hands over through a Unix socket.
///
/// Programs differ in who listens, so either side may. All of them use a stream socket, and send
/// one descriptor (SCM_RIGHTS) with a message that says how to mount; the command line says that
/// here, so the message is skipped.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>

#include "storage/descriptor_pool.h"

namespace reshardfs {

struct FuseSocket {
  std::filesystem::path path;
  /// Whether this process makes the socket, and the other one connects; if not, the other way
  /// round.
  bool listens = false;
};

/// @param text "PATH" or "listen:PATH".
/// @throws Error kUsage if there is no path.
FuseSocket parse_fuse_socket(const std::string& text);

struct HandedDescriptor {
  /// Checked and close-on-exec. Whoever serves it closes it.
  int fuse = -1;
  /// To be kept for as long as the mount is served: its end tells the other side, which has no
  /// descriptor of the mount any more, that the mount is dead.
  Descriptor connection;
};

/// Waits for the other side, and for one descriptor of a live mount. To be used while the process
/// has one thread. A socket that this process has made is readable and writable for its user alone,
/// and is removed at the end.
/// @param stop ends the wait when it becomes true; looked at every 50 ms.
/// @throws Error kIo if that takes longer than `patience`, is stopped, or the other side sends
///         anything but one descriptor; kUsage if the descriptor is none of a live mount, or if
///         something else is at the path.
HandedDescriptor receive_fuse_descriptor(const FuseSocket& socket, std::chrono::seconds patience,
                                         const std::atomic<bool>& stop);

}  // namespace reshardfs
