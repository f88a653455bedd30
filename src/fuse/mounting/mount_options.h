// SPDX-License-Identifier: Apache-2.0
/// The options of a mount.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
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

/// A value for a list of mount options: `\` and `,` mean something there.
std::string escape_option_value(std::string_view value);

/// The words after -o: the caller's own, then those that are always set, so that these win.
/// @throws Error kUsage if a word contradicts them.
std::string mount_words(const MountOptions& options);

/// How far the kernel should read ahead in a mount, in KiB.
///
/// 1024 for fast sources, so that the bytes which a reader copies out of the page cache are still
/// in the processor's caches. 4096 for sources on a network or a FUSE file system: four requests of
/// 1 MiB are in progress together, which halves the time if each of them waits.
/// @param source counts as fast if it cannot be examined.
unsigned read_ahead_for(const std::filesystem::path& source) noexcept;

}  // namespace reshardfs
