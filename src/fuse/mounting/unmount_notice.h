// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "storage/descriptor_pool.h"

namespace reshardfs {

/// Whether the file system that is mounted at a place now has been unmounted since.
///
/// The mount table cannot tell: a mount's number and its device's are given again to the next one,
/// which may be at the same place. The kernel says it to who watches a directory of the file system
/// (IN_UNMOUNT in inotify(7)), and does so before the numbers are free.
class UnmountNotice {
 public:
  /// Looks at the mount point, so that the mount must answer by now. Does not keep it busy.
  explicit UnmountNotice(const std::filesystem::path& mountpoint) noexcept;
  UnmountNotice(const UnmountNotice&) = delete;
  UnmountNotice& operator=(const UnmountNotice&) = delete;

  /// False if the system did not let the directory be watched: a user may have few watchers.
  bool watches() const noexcept { return watches_; }
  /// Whether it has been unmounted; stays so.
  bool came() noexcept;

 private:
  const Descriptor watcher_;
  bool watches_ = false;
  bool came_ = false;
};

}  // namespace reshardfs
