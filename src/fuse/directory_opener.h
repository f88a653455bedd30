// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "vfs/inode_number.h"

namespace reshardfs {

/// Opens pending directories, each once however many requests wait for it, and at most `permits`
/// at once: on the threads that bring the requests, while those that only wait go on to others. A
/// source that does not answer so holds one thread for each directory, and `permits` at most.
class DirectoryOpener {
 public:
  /// What a request does when the directory is open (0) or could not be opened (an errno).
  using Then = std::function<void(int error)>;

  /// @param open returns 0 or an errno.
  DirectoryOpener(unsigned permits, std::function<int(InodeNumber)> open);

  /// `then` runs exactly once, maybe on another thread, and must not throw.
  /// @throws std::bad_alloc; then it will not be run.
  void submit(InodeNumber directory, Then then);

 private:
  bool take_permit_or_queue(InodeNumber directory, Then then);
  void open_and_answer(InodeNumber directory);
  bool next_or_give_permit_back(InodeNumber& directory);

  const std::function<int(InodeNumber)> open_;
  std::mutex mutex_;
  unsigned free_permits_;                                       ///< guarded by mutex_
  std::deque<InodeNumber> queue_;                               ///< guarded by mutex_
  std::unordered_map<InodeNumber, std::vector<Then>> waiting_;  ///< guarded by mutex_
};

}  // namespace reshardfs
