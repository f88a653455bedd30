// SPDX-License-Identifier: Apache-2.0
#include "storage/descriptor_pool.h"

#include <algorithm>

#include "base/process/process_state.h"
#include "base/process/resource_limits.h"

namespace reshardfs {

DescriptorPool::DescriptorPool(std::size_t places, std::size_t shared)
    : places_(places), shared_(shared) {}

DescriptorPool* DescriptorPool::make(const DescriptorPool* before) {
  auto pool = std::make_unique<DescriptorPool>(0, 1);
  // The parent's files are open in a child, too.
  if (before != nullptr) pool->taken_ = before->taken_.load();
  return pool.release();
}

namespace {

ProcessState<DescriptorPool> the_pool("descriptor pool", &DescriptorPool::make);

}  // namespace

DescriptorPool& DescriptorPool::process() {
  DescriptorPool& pool = the_pool.get();
  pool.fit(open_file_limit());
  return pool;
}

void DescriptorPool::fit(std::size_t limit) noexcept {
  // What a process holds besides its sources: /dev/fuse, logs, listings, the host program's own.
  constexpr std::size_t kReserve = 256;
  const std::size_t usable = std::max(limit / 2, limit - std::min(limit, kReserve));
  shared_ = std::clamp<std::size_t>(usable / 4, 1, 256);
  places_ = usable - std::min<std::size_t>(usable, shared_);
}

bool DescriptorPool::take_place() noexcept {
  if (taken_.fetch_add(1) < places_) return true;
  --taken_;
  return false;
}

void DescriptorPool::give_back_place() noexcept {
  --taken_;
}

DescriptorPtr DescriptorPool::find(const void* file) {
  const auto found = by_file_.find(file);
  if (found == by_file_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->second;
}

DescriptorPtr DescriptorPool::get(const void* file, const std::function<DescriptorPtr()>& open) {
  {
    const std::lock_guard lock(mutex_);
    if (DescriptorPtr known = find(file)) return known;
  }
  // Without the lock: opening may wait for storage.
  DescriptorPtr opened = open();
  Kept closed;  // destroyed, and its files closed, after the lock is given back
  const std::lock_guard lock(mutex_);
  if (DescriptorPtr known = find(file)) return known;
  Kept place;
  place.emplace_front(file, opened);
  by_file_[file] = place.begin();  // the last that needs memory
  kept_.splice(kept_.begin(), place);
  while (kept_.size() > shared_) {
    by_file_.erase(kept_.back().first);
    closed.splice(closed.end(), kept_, std::prev(kept_.end()));
  }
  return opened;
}

void DescriptorPool::forget(const void* file) {
  const std::lock_guard lock(mutex_);
  const auto found = by_file_.find(file);
  if (found == by_file_.end()) return;
  kept_.erase(found->second);
  by_file_.erase(found);
}

void DescriptorPool::close_idle() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
  by_file_.clear();
}

std::size_t DescriptorPool::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

}  // namespace reshardfs
