// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/mountpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "reshardfs/error.h"

#include "base/posix/file_lock.h"
#include "base/posix/mount_table.h"
#include "base/text/shell_text.h"
#include "base/text/url_path.h"
#include "fuse/mounting/fuse_descriptor.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// Whether it is in a mount whose process has ended. The kernel may know its attributes still, but
/// asks for this each time.
bool is_dead(const fs::path& path) {
  struct statfs statfs {};
  return ::statfs(path.c_str(), &statfs) != 0 && errno == ENOTCONN;
}

/// The highest dead directory on the way to `path`: where the dead mount is.
fs::path dead_mount_above(fs::path path) {
  while (path.has_relative_path() && is_dead(path.parent_path())) path = path.parent_path();
  return path;
}

void check_directory(const fs::path& mountpoint) {
  struct stat stat {};
  int error = ::stat(mountpoint.c_str(), &stat) == 0 ? 0 : errno;
  if (error == 0 && is_dead(mountpoint)) error = ENOTCONN;
  if (error == 0) {
    if (S_ISDIR(stat.st_mode)) return;
    throw Error(ErrorKind::kUsage, "the mount point is not a directory")
        .in_file(mountpoint)
        .needs(Need::kMountpoint);
  }
  if (error == ENOENT) {
    throw Error(ErrorKind::kMissing, "the mount point does not exist")
        .in_file(mountpoint)
        .os_error(error)
        .needs(Need::kMountpoint)
        .hint("mkdir -p " + mountpoint.native());
  }
  if (error == ENOTCONN) {
    throw Error(ErrorKind::kUsage, "the process of the mount here has ended")
        .in_file(mountpoint)
        .os_error(error)
        .hint("fusermount3 -u " + dead_mount_above(fs::absolute(mountpoint)).native());
  }
  throw io_error("look at the mount point", mountpoint, error);
}

/// As far as it exists, without symbolic links. @param action for the message.
fs::path canonical_start(const fs::path& path, const char* action) {
  std::error_code error;
  fs::path real = fs::absolute(path, error);
  if (!error) real = fs::weakly_canonical(real, error);
  if (error) throw io_error(action, path, error.value());
  return real;
}

/// Reading a source through the mount that it feeds would stop both for ever: the process could
/// not even be killed.
void check_apart(const fs::path& mountpoint, const fs::path& source) {
  if (is_url(source)) return;
  const fs::path mount_path = canonical_start(mountpoint, "look at the mount point");
  const fs::path source_path = canonical_start(source, "look at the source");
  const std::string hint = "choose a mount point outside the source";
  if (is_inside(source_path, mount_path)) {
    throw Error(ErrorKind::kUsage,
                "the source " + source_path.native() + " lies inside the mount point")
        .in_file(mountpoint)
        .needs(Need::kMountpoint)
        .hint(hint);
  }
  if (is_inside(mount_path, source_path)) {
    throw Error(ErrorKind::kUsage, "the mount point lies inside the source " + source_path.native())
        .in_file(mountpoint)
        .needs(Need::kMountpoint)
        .hint(hint);
  }
}

}  // namespace

void check_empty(const fs::path& mountpoint) {
  if (fuse_descriptor(mountpoint)) return;
  std::error_code error;
  const fs::path path = fs::canonical(mountpoint, error);
  if (!error) {
    const auto mount = mount_at(path);
    if (mount && mount->type == kMountType) {
      throw Error(ErrorKind::kUsage, "a reshardfs mount is here already")
          .in_file(mountpoint)
          .hint(command_line("umount", {mountpoint.native()}));
    }
  }
  const bool empty = fs::is_empty(mountpoint, error);
  if (error) throw io_error("list the mount point", mountpoint, error.value());
  if (!empty) {
    throw Error(
        ErrorKind::kUsage,
        "the mount point is not empty, and a mount would hide its files (--nonempty allows that)")
        .in_file(mountpoint)
        .needs(Need::kMountpoint)
        .hint("choose another directory");
  }
}

void check_mountpoint(const fs::path& mountpoint, const fs::path& source, bool allow_nonempty) {
  if (const auto descriptor = fuse_descriptor(mountpoint))
    return check_fuse_descriptor(*descriptor);
  if (mountpoint.empty()) {
    throw Error(ErrorKind::kUsage, "the path of the mount point is empty").needs(Need::kMountpoint);
  }
  // The user is told to make a missing directory, so its place must be right.
  std::error_code failed;
  const bool is_missing = fs::status(mountpoint, failed).type() == fs::file_type::not_found;
  if (is_missing) check_apart(mountpoint, source);
  check_directory(mountpoint);
  check_apart(mountpoint, source);
  if (!allow_nonempty) check_empty(mountpoint);
}

fs::path real_mountpoint(const fs::path& mountpoint) {
  // The real path of a descriptor's name is /dev/fuse.
  if (fuse_descriptor(mountpoint)) return mountpoint;
  std::error_code error;
  fs::path real = fs::canonical(mountpoint, error);
  if (error) throw io_error("look at the mount point", mountpoint, error.value());
  return real;
}

MountPlace::MountPlace(const std::filesystem::path& mountpoint)
    : directory_(::open(mountpoint.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  // What cannot be opened is not locked: /dev/fd/N, and a directory that can only be mounted on
  // (mode 0311), which is rare.
  if (try_lock(directory_.get()) != LockState::kHeldElsewhere) return;
  throw Error(ErrorKind::kUsage, "another process is mounting here right now")
      .in_file(mountpoint)
      .hint("mount once, or at another directory");
}

bool leads_to_mount(const fs::path& path, const fs::path& mountpoint) {
  if (fuse_descriptor(mountpoint)) return true;
  std::error_code failed;
  const fs::path whole = fs::absolute(path, failed).lexically_normal();
  const auto found = failed ? std::nullopt : follow_links(whole, mountpoint);
  if (!found || found->place != mountpoint) return false;
  const fs::path rest = found->rest.lexically_normal();
  return rest.empty() || rest == ".";
}

}  // namespace reshardfs
