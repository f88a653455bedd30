// SPDX-License-Identifier: Apache-2.0
/// Serving a tree through FUSE, from the mount to its end or to the process that goes on with it.
#pragma once

#include <functional>

#include "daemon/handover/handover_options.h"
#include "fuse/mounting/mount_options.h"
#include "vfs/tree_source.h"

namespace reshardfs {

struct ServeOptions : MountOptions {
  HandoverOptions handover{};
  /// If set, SIGHUP does not end the mount, but calls this, on the thread that called serve(). It
  /// must not throw.
  std::function<void()> on_hangup;
  /// Called, if set, when the mount begins to end: before reads under way are waited for. It must
  /// not throw.
  std::function<void()> on_end;
};

/// Mounts the source's tree and serves it until it is unmounted or SIGINT, SIGTERM or (without
/// on_hangup) SIGHUP arrives; then unmounts, and returns. Reads under way have 2 s to end; if some
/// have not ended then, or a second signal comes, this function does not return but ends the
/// process with exit code 0: threads that wait for a stalled source cannot be stopped, and still
/// use the tree.
/// @param on_live called once on the calling thread, when the kernel's INIT request has been
///        answered. If it throws, the mount is undone and the exception passed on. Not called if
///        a signal comes first.
/// It also returns when another process has taken the mount over (HandoverOptions).
/// @throws Error kIo (with what to do) if it cannot be mounted; kUsage for mount options that are
///         unknown or that contradict those always set, and for a mount point that is not empty.
void serve(TreeSource& source, const ServeOptions& options, const std::function<void()>& on_live);
/// The same for one tree that never changes.
void serve(const Tree& tree, const ServeOptions& options, const std::function<void()>& on_live);

}  // namespace reshardfs
