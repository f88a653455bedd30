// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/unmount_notice.h"

#include <sys/inotify.h>
#include <unistd.h>

namespace reshardfs {

UnmountNotice::UnmountNotice(const std::filesystem::path& mountpoint) noexcept
    : watcher_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  // An event must be named, and this one never comes; that of unmounting always does.
  watches_ = watcher_.get() >= 0 && ::inotify_add_watch(watcher_.get(), mountpoint.c_str(),
                                                        IN_DELETE_SELF | IN_ONLYDIR) >= 0;
}

bool UnmountNotice::came() noexcept {
  // Events of a directory itself have no name.
  inotify_event event{};
  while (watches_ && !came_ && ::read(watcher_.get(), &event, sizeof event) == sizeof event) {
    came_ = (event.mask & IN_UNMOUNT) != 0;
  }
  return came_;
}

}  // namespace reshardfs
