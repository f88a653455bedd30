// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_scheduler.h"

#include <utility>

namespace reshardfs {

ReadScheduler::ReadScheduler(unsigned permits, std::function<void(const ReadRequest&)> run)
    : run_(std::move(run)), free_permits_(permits) {}

void ReadScheduler::submit(const ReadRequest& request) {
  if (!take_permit_or_queue(request)) return;
  ReadRequest current = request;
  do {
    run_(current);
  } while (next_or_give_permit_back(current));
}

bool ReadScheduler::take_permit_or_queue(const ReadRequest& request) {
  const std::lock_guard lock(mutex_);
  if (free_permits_ == 0) {
    queue_.push_back(request);
    return false;
  }
  --free_permits_;
  return true;
}

// Looking into the queue and giving the permit back are one step: between the two, a request could
// be queued that no thread would look for.
bool ReadScheduler::next_or_give_permit_back(ReadRequest& request) {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) {
    ++free_permits_;
    return false;
  }
  request = queue_.front();
  queue_.pop_front();
  return true;
}

}  // namespace reshardfs
