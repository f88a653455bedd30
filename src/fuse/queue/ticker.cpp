// SPDX-License-Identifier: Apache-2.0
#include "fuse/queue/ticker.h"

#include <exception>

namespace reshardfs {

void Ticker::want() noexcept {
  wanted_ = true;
  if (asleep_) start();
}

void Ticker::start() noexcept {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  if (thread_.joinable()) {
    changed_.notify_one();
    return;
  }
  try {
    thread_ = std::thread([this] { keep_ticking(); });
  } catch (const std::exception&) {
    // The next caller tries again.
  }
}

void Ticker::keep_ticking() noexcept {
  // Going to sleep and being woken costs more than some ticks for nothing.
  constexpr unsigned kIdleTicks = 20;
  unsigned idle = 0;
  std::unique_lock lock(mutex_);
  asleep_ = false;
  while (!stopping_) {
    if (idle == kIdleTicks) {
      asleep_ = true;
      changed_.wait(lock, [this] { return wanted_ || stopping_; });
      asleep_ = false;
      idle = 0;
    }
    changed_.wait_for(lock, kInterval, [this] { return stopping_; });
    if (stopping_) return;
    wanted_ = false;
    lock.unlock();
    idle = tick_(Clock::now()) ? 0 : idle + 1;
    lock.lock();
  }
}

void Ticker::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace reshardfs
