// SPDX-License-Identifier: Apache-2.0
/// Keeps requests that wait for storage from using up all threads that answer the kernel.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "vfs/inode_number.h"

namespace reshardfs {

/// Runs requests on the threads that bring them, but at most `permits` at once, and at most half of
/// them for one file; further ones wait in queues, which are emptied by the threads whose own
/// request has ended. So a read on a quick source costs no change of thread, and slow sources hold
/// `permits` threads and no more: the others go on answering lookups and attributes from memory.
/// One file whose source is stalled leaves the other half to all other files.
/// @tparam Request something that can be copied, with the file's `inode`.
template <typename Request>
class RequestScheduler {
 public:
  using Run = std::function<void(const Request&)>;

  /// @param run answers one request; must not throw.
  RequestScheduler(unsigned permits, Run run)
      : run_(std::move(run)), permits_of_one_(std::max(1U, permits / 2)), free_permits_(permits) {}

  /// Runs `request`, and then queued ones; or, if it must wait, queues it and returns at once.
  /// Every submitted request is run exactly once.
  /// @throws std::bad_alloc if it cannot be queued; then it will not be run.
  void submit(const Request& request) {
    if (!take_permit_or_queue(request)) return;
    InodeNumber ended = request.inode;
    run_(request);
    while (const std::optional<Request> next = next_or_give_permit_back(ended)) {
      run_(*next);
      ended = next->inode;
    }
  }

 private:
  /// The requests for one file.
  struct Lane {
    unsigned active = 0;  ///< requests that run or are due
    /// Those that have to wait until one of the active ones has ended.
    std::list<Request> held;
  };

  bool take_permit_or_queue(const Request& request) {
    const std::lock_guard lock(mutex_);
    Lane& lane = lanes_[request.inode];
    if (lane.active == permits_of_one_) {
      lane.held.push_back(request);
      return false;
    }
    if (free_permits_ == 0) due_.push_back(request);
    ++lane.active;
    if (free_permits_ == 0) return false;
    --free_permits_;
    return true;
  }

  // Looking into the queues and giving the permit back are one step: between the two, a request
  // could be queued that no thread would look for.
  std::optional<Request> next_or_give_permit_back(InodeNumber ended) noexcept {
    const std::lock_guard lock(mutex_);
    const auto lane = lanes_.find(ended);
    if (!lane->second.held.empty()) {
      due_.splice(due_.end(), lane->second.held, lane->second.held.begin());
    } else if (--lane->second.active == 0) {
      lanes_.erase(lane);
    }
    if (due_.empty()) {
      ++free_permits_;
      return std::nullopt;
    }
    std::optional<Request> request = std::move(due_.front());
    due_.pop_front();
    return request;
  }

  const Run run_;
  const unsigned permits_of_one_;
  // Guarded by mutex_. Lists, since requests that move on must not need memory: there is nobody
  // left to tell that there is none.
  std::mutex mutex_;
  unsigned free_permits_;
  std::unordered_map<InodeNumber, Lane> lanes_;  ///< of the files that have requests now
  std::list<Request> due_;                       ///< wait for a permit; empty while one is free
};

}  // namespace reshardfs
