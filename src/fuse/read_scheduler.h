// SPDX-License-Identifier: Apache-2.0
/// Keeps reads from using up all threads that answer the kernel.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "vfs/inode_number.h"

struct fuse_req;

namespace reshardfs {

struct ReadRequest {
  fuse_req* request = nullptr;
  InodeNumber inode = 0;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::chrono::steady_clock::time_point arrived{};
};

/// Runs reads on the threads that bring them, but at most `permits` at once, and at most half of
/// them for one file; further ones wait in queues, which are emptied by the threads whose own read
/// has ended. So a read on a quick source costs no change of thread, and slow sources hold
/// `permits` threads and no more: the others go on answering lookups and attributes from memory.
/// One file whose source is stalled leaves the other half to all other files.
class ReadScheduler {
 public:
  /// @param run answers one request; must not throw.
  ReadScheduler(unsigned permits, std::function<void(const ReadRequest&)> run);

  /// Runs `request`, and then queued ones; or, if it must wait, queues it and returns at once.
  /// Every submitted request is run exactly once.
  /// @throws std::bad_alloc if it cannot be queued; then it will not be run.
  void submit(const ReadRequest& request);

 private:
  /// The reads of one file.
  struct Lane {
    unsigned active = 0;  ///< reads that run or are due
    /// Those that have to wait until one of the active ones has ended.
    std::list<ReadRequest> held;
  };

  bool take_permit_or_queue(const ReadRequest& request);
  std::optional<ReadRequest> next_or_give_permit_back(InodeNumber ended) noexcept;

  const std::function<void(const ReadRequest&)> run_;
  const unsigned permits_of_one_;
  // Guarded by mutex_. Lists, since reads that move on must not need memory: there is nobody left
  // to tell that there is none.
  std::mutex mutex_;
  unsigned free_permits_;
  std::unordered_map<InodeNumber, Lane> lanes_;  ///< of the files that have reads now
  std::list<ReadRequest> due_;                   ///< wait for a permit; empty while one is free
};

}  // namespace reshardfs
