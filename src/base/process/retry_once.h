// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>

namespace reshardfs {

/// As std::once_flag and std::call_once, for work that may throw: the next caller tries again.
/// (What an exception does to std::call_once differs between systems, and hangs under the thread
/// sanitizer.)
class RetryOnce {
 public:
  template <typename Work>
  void call(Work&& work) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::scoped_lock lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    work();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> done_ = false;
};

}  // namespace reshardfs
