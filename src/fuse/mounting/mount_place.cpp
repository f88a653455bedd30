// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/mount_place.h"

#include <fcntl.h>

#include "reshardfs/error.h"

#include "base/posix/file_lock.h"
#include "fuse/mounting/fuse_descriptor.h"

namespace reshardfs {
namespace {

int open_directory(const std::filesystem::path& mountpoint) {
  if (fuse_descriptor(mountpoint)) return -1;
  return ::open(mountpoint.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

MountPlace::MountPlace(const std::filesystem::path& mountpoint)
    : directory_(open_directory(mountpoint)) {
  // A directory that can be mounted on but not opened (mode 0311) is rare, and is not locked.
  if (directory_.get() < 0) return;
  if (try_lock(directory_.get()) != LockState::kHeldElsewhere) return;
  throw Error(ErrorKind::kUsage, "another process is mounting here right now")
      .in_file(mountpoint)
      .hint("mount once, or at another directory");
}

}  // namespace reshardfs
