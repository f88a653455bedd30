// SPDX-License-Identifier: Apache-2.0
/// The end of mounts: by this process, by others, and where it is not one yet.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/posix/descriptor.h"
#include "base/posix/mount_table.h"

namespace reshardfs {

struct CommandResult {
  int exit_code = 0;     ///< 128 + signal number if a signal ended it
  std::string messages;  ///< what it wrote to standard error
};

/// Runs fusermount3, the set-user-ID program through which ordinary users unmount, without a shell.
/// @throws Error kIo if it cannot be started.
CommandResult run_fusermount(const std::vector<std::string>& arguments);

/// Takes a mount out of the directory tree, even while files in it are open.
/// @return whether it is gone.
bool detach_mount(const std::filesystem::path& mountpoint);

/// The list of mounts without which fusermount3 unmounts nothing.
inline constexpr const char* kListOfMounts = "/etc/mtab";
inline constexpr const char* kMakeListOfMounts =
    "as root, run 'ln -s /proc/self/mounts /etc/mtab', which minimal systems lack";

/// That a mount by this process can be unmounted again.
/// @throws Error kIo if it would take fusermount3, and there is no kListOfMounts.
void require_way_to_unmount();

/// Unmounts, as root through umount2(2) or as a user through fusermount3.
/// @param patience how long to wait until the list of mounts is without it.
/// @return what was mounted there.
/// @throws Error kUsage if it is no reshardfs mount, kIo if it is busy or not permitted.
MountEntry unmount(const std::filesystem::path& mountpoint,
                   std::chrono::seconds patience = std::chrono::seconds(5));

/// Detects that the file system which is mounted at a place now is unmounted later.
///
/// The mount table cannot show this, because the numbers of a mount and its device are reused for
/// the next mount, which may be at the same place. The kernel reports it to a watch of a directory
/// in the file system (IN_UNMOUNT in inotify(7)) before the numbers are free.
class UnmountNotice {
 public:
  /// Examines the mount point, so the mount must already answer requests. Does not keep it busy.
  explicit UnmountNotice(const std::filesystem::path& mountpoint) noexcept;
  UnmountNotice(const UnmountNotice&) = delete;
  UnmountNotice& operator=(const UnmountNotice&) = delete;

  /// False if the directory could not be watched: the number of watches of a user is limited.
  bool watches() const noexcept { return watches_; }
  /// Whether it has been unmounted; stays so.
  bool came() noexcept;

 private:
  const Descriptor watcher_;
  bool watches_ = false;
  bool came_ = false;
};

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
