// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/unmount.h"

#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reshardfs/error.h"

#include "base/posix/mount_table.h"
#include "base/text/file_name.h"
#include "base/text/near_name.h"
#include "base/text/shell_text.h"
#include "fuse/mounting/fusermount.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

Error busy(const std::string& mountpoint) {
  return Error(ErrorKind::kIo, "the mount is in use")
      .in_file(mountpoint)
      .os_error(EBUSY)
      .hint("'fuser -vm " + mountpoint + "' shows by whom");
}

void unmount_as_user(const std::string& mountpoint) {
  const CommandResult result = run_fusermount({"-u", "--", mountpoint});
  if (result.exit_code == 0) return;
  if (result.messages.find("busy") != std::string::npos) throw busy(mountpoint);
  std::string reason = result.messages.substr(0, result.messages.find('\n'));
  if (reason.empty()) reason = "fusermount3 exits with " + std::to_string(result.exit_code);
  throw Error(ErrorKind::kIo, "cannot unmount: " + printable(reason)).in_file(mountpoint);
}

/// A mount point like this path in the same directory, or those below it. Paths as wholes are not
/// compared: they are alike for the directories that they have in common.
std::string meant_mount(const std::string& path, const std::vector<MountEntry>& mounts) {
  const fs::path parent = fs::path(path).parent_path();
  std::vector<std::string> neighbours;
  std::vector<std::string> below;
  for (const MountEntry& mount : mounts) {
    const fs::path place = mount.mountpoint;
    if (place.parent_path() == parent) neighbours.push_back(place.filename());
    if (mount.mountpoint.starts_with(path + "/")) below.push_back(mount.mountpoint);
  }
  if (const auto near = near_name(fs::path(path).filename().string(), neighbours)) {
    return "did you mean '" + printable(parent / *near) + "'?";
  }
  return did_you_mean(path, below);
}

/// The path may be misspelt, or the source's.
Error nothing_mounted(const fs::path& mountpoint) {
  Error error(ErrorKind::kUsage, "nothing is mounted here");
  error.in_file(mountpoint);
  const std::string path =
      without_trailing_slash(fs::absolute(mountpoint).lexically_normal()).string();
  const std::vector<MountEntry> mounts = reshardfs_mounts();
  for (const MountEntry& other : mounts) {
    if (fs::path(other.source).lexically_normal() == path) {
      error.hint("it is the source of a mount: " + command_line("umount", {other.mountpoint}));
    }
  }
  return error.hint(meant_mount(path, mounts))
      .hint("'reshardfs status' lists what is mounted where");
}

void wait_until_gone(const MountEntry& mount) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  for (;;) {
    const auto now = mount_at(mount.mountpoint);
    if (!now || now->id != mount.id) return;
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(ErrorKind::kIo, "the mount is still there").in_file(mount.mountpoint);
    }
    std::this_thread::sleep_for(10ms);
  }
}

}  // namespace

MountEntry unmount(const fs::path& mountpoint) {
  const auto mount = find_mount(mountpoint);
  if (!mount) throw nothing_mounted(mountpoint);
  if (!is_reshardfs(*mount)) {
    throw Error(ErrorKind::kUsage, "the file system mounted here has type " + mount->type +
                                       ", not " + std::string(kMountType))
        .in_file(mountpoint);
  }
  if (::umount2(mount->mountpoint.c_str(), UMOUNT_NOFOLLOW) != 0) {
    if (errno == EBUSY) throw busy(mount->mountpoint);
    if (errno != EPERM) throw io_error("unmount", mount->mountpoint, errno);
    unmount_as_user(mount->mountpoint);
  }
  wait_until_gone(*mount);
  return *mount;
}

}  // namespace reshardfs
