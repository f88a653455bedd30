// SPDX-License-Identifier: Apache-2.0
/// Keeps reads from using up all threads that answer the kernel.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

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

/// Runs reads on the threads that bring them, but at most `permits` at once; further ones wait in a
/// queue, which is emptied by the threads whose own read has ended. So a read on a quick source
/// costs no change of thread, and slow sources hold `permits` threads and no more: the others go on
/// answering lookups and attributes from memory.
class ReadScheduler {
 public:
  /// @param run answers one request; must not throw.
  ReadScheduler(unsigned permits, std::function<void(const ReadRequest&)> run);

  /// Runs `request`, and then queued ones; or, if all permits are taken, queues it and returns at
  /// once. Every submitted request is run exactly once.
  /// @throws std::bad_alloc if it cannot be queued; then it will not be run.
  void submit(const ReadRequest& request);

 private:
  bool take_permit_or_queue(const ReadRequest& request);
  bool next_or_give_permit_back(ReadRequest& request);

  const std::function<void(const ReadRequest&)> run_;
  std::mutex mutex_;
  unsigned free_permits_;          ///< guarded by mutex_
  std::deque<ReadRequest> queue_;  ///< guarded by mutex_; empty while a permit is free
};

}  // namespace reshardfs
