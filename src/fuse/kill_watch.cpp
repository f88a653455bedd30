// SPDX-License-Identifier: Apache-2.0
#include "fuse/kill_watch.h"

#include <exception>
#include <utility>

#include "fuse/killable_request.h"

namespace reshardfs {

void KillWatch::add(std::weak_ptr<KillableRequest> request) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    requests_.push_back(std::move(request));
    changed_.notify_one();
  } catch (const std::exception&) {
    // Then the program waits for its bytes, as it does on other file systems.
  }
}

void KillWatch::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void KillWatch::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !requests_.empty(); });
    changed_.wait_for(lock, interval_, [this] { return stopping_; });
    if (stopping_) return;
    std::vector<std::weak_ptr<KillableRequest>> looked_at = std::exchange(requests_, {});
    // Without the lock: libfuse holds a lock of the request's, which answering needs, when it tells
    // of a signal, and so when add() is called.
    lock.unlock();
    std::erase_if(looked_at, [](const std::weak_ptr<KillableRequest>& weak) {
      const std::shared_ptr<KillableRequest> request = weak.lock();
      return request == nullptr || request->is_over_or_given_up();
    });
    lock.lock();
    try {
      requests_.insert(requests_.end(), looked_at.begin(), looked_at.end());
    } catch (const std::exception&) {
      // As in add().
    }
  }
}

}  // namespace reshardfs
