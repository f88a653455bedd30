// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/posix/descriptor.h"

namespace reshardfs {

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

}  // namespace reshardfs
