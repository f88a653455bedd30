// SPDX-License-Identifier: Apache-2.0
/// Serving a tree through FUSE. This folder is the only code that includes libfuse.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fuse/handover_options.h"
#include "fuse/mount_table.h"
#include "vfs/tree_source.h"

namespace reshardfs {

struct MountOptions {
  /// Must be an existing directory; symbolic links are followed. Or /dev/fd/N: a FUSE descriptor
  /// that was mounted before; then fuse_options and source_name do nothing, and whoever mounted it
  /// unmounts it.
  std::filesystem::path mountpoint;
  /// Whether the mount may hide files, or another mount.
  bool nonempty = false;
  /// What /proc/mounts shows as the device: the source's path.
  std::string source_name;
  /// mount(8) words for FUSE and the kernel, e.g. "allow_other"; ro, nosuid, nodev and
  /// default_permissions are always set.
  std::vector<std::string> fuse_options;
  /// Owner of all nodes.
  uid_t uid = 0;
  gid_t gid = 0;
  /// Permissions of files and directories; links have 0777.
  mode_t file_mode = 0444;
  mode_t dir_mode = 0555;
  /// Modification time of all nodes, nanoseconds since the epoch.
  std::int64_t mtime_ns = 0;
  /// Kernel read-ahead of the mount, KiB; set where permitted. 0: left alone.
  unsigned read_ahead_kb = 1024;
  /// Answer reads without the kernel's page cache.
  bool direct_io = false;
  /// Let the kernel itself read files that equal a source file, where it can. Such reads are not
  /// checked against changes of the source; openings are, and what is found when a file is closed
  /// is logged.
  bool passthrough = false;
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
void serve(TreeSource& source, const MountOptions& options, const std::function<void()>& on_live);
/// The same for one tree that never changes.
void serve(const Tree& tree, const MountOptions& options, const std::function<void()>& on_live);

/// Makes sure that a mount would hide nothing; /dev/fd/N hides nothing.
/// @throws Error kUsage if it would, kIo.
void check_empty(const std::filesystem::path& mountpoint);

/// Checks a mount point before anything is opened: an existing directory, empty unless
/// `allow_nonempty`, not inside `source` and `source` not inside it; or /dev/fd/N of a live mount.
/// @throws Error kUsage or kMissing.
void check_mountpoint(const std::filesystem::path& mountpoint, const std::filesystem::path& source,
                      bool allow_nonempty);

/// As the kernel's list of mounts will show it: absolute and without symbolic links. /dev/fd/N
/// stays as it is.
/// @throws Error kIo.
std::filesystem::path real_mountpoint(const std::filesystem::path& mountpoint);

/// Unmounts, as root through umount2(2) or as a user through fusermount3.
/// @return what was mounted there.
/// @throws Error kUsage if it is no reshardfs mount, kIo if it is busy or not permitted.
MountEntry unmount(const std::filesystem::path& mountpoint);

}  // namespace reshardfs
