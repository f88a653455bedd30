// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/process/lone_thread.h"
#include "fuse/wake_pipe.h"
#include "vfs/inode_number.h"
#include "vfs/tree.h"

namespace reshardfs {

/// A name that the kernel may have cached.
struct KnownName {
  InodeNumber directory = 0;
  InodeNumber inode = 0;
  bool is_directory = false;
  std::string name{};
};

/// The change of which the kernel must be told.
struct TreeChange {
  std::vector<KnownName> names{};  ///< of the trees before
  bool is_replaced = false;        ///< by another tree; false: only attributes have changed
  /// Files of the trees before are stale, also where their bytes are cached.
  bool has_lost = false;
};

/// All names of a tree that the kernel may have cached.
std::vector<KnownName> names_of(const Tree& tree);

/// Tells the kernel which cached data of a mount is out of date. This happens on a separate thread,
/// because the kernel blocks while a program waits for an answer in the same directory. Not
/// thread-safe.
class KernelCaches {
 public:
  KernelCaches() = default;
  KernelCaches(const KernelCaches&) = delete;
  KernelCaches& operator=(const KernelCaches&) = delete;
  /// Only after stop() has returned true, or without start().
  ~KernelCaches() = default;

  /// Posts Event::kToldKernel at the end. @throws std::system_error, std::bad_alloc
  void start(int fuse, TreeChange change, std::shared_ptr<const Tree> now, const WakePipe& events);
  bool is_running() noexcept { return !thread_.ends_within(std::chrono::milliseconds(0)); }
  /// @return whether the thread has ended; if not, it still waits for the kernel.
  bool stop(std::chrono::milliseconds limit) noexcept;

 private:
  void tell(int fuse, const TreeChange& change, const Tree& now) const;

  std::atomic<bool> stopping_ = false;
  LoneThread thread_;
};

}  // namespace reshardfs
