// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_scheduler.h"

#include <algorithm>
#include <utility>

namespace reshardfs {

ReadScheduler::ReadScheduler(unsigned permits, std::function<void(const ReadRequest&)> run)
    : run_(std::move(run)), permits_of_one_(std::max(1U, permits / 2)), free_permits_(permits) {}

void ReadScheduler::submit(const ReadRequest& request) {
  if (!take_permit_or_queue(request)) return;
  for (std::optional<ReadRequest> current = request; current;) {
    run_(*current);
    current = next_or_give_permit_back(current->inode);
  }
}

bool ReadScheduler::take_permit_or_queue(const ReadRequest& request) {
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

// Looking into the queues and giving the permit back are one step: between the two, a request could
// be queued that no thread would look for.
std::optional<ReadRequest> ReadScheduler::next_or_give_permit_back(InodeNumber ended) noexcept {
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
  const ReadRequest request = due_.front();
  due_.pop_front();
  return request;
}

}  // namespace reshardfs
