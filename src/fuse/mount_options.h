// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

struct MountOptions {
  /// Must be an existing directory; symbolic links are followed. Or /dev/fd/N: a FUSE descriptor
  /// that was mounted before; then fuse_options and source_name have no effect, and the program
  /// that mounted it must unmount it.
  std::filesystem::path mountpoint;
  /// Whether the mount may hide files, or another mount.
  bool nonempty = false;
  /// The device in /proc/mounts: the source's path.
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
  /// Let the kernel itself read files that equal a source file, if it can. Changes of the source
  /// are then detected only when a file is opened and, with a line in the log, when it is closed.
  bool passthrough = false;
};

}  // namespace reshardfs
