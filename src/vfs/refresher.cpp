// SPDX-License-Identifier: Apache-2.0
#include "vfs/refresher.h"

#include <utility>

namespace reshardfs {

Refresher::Refresher(std::function<bool()> refresh, Limits limits,
                     std::function<Clock::time_point()> now)
    : refresh_(std::move(refresh)), limits_(limits), now_(std::move(now)) {
  // The source has just been looked at.
  stale_from_ = now_() + limits_.fresh_for;
}

void Refresher::start() {
  thread_.start([this] { work(); });
  const std::lock_guard lock(mutex_);
  started_ = true;
}

/// With mutex_. @return whether a look is due or under way.
bool Refresher::ask() noexcept {
  if (!started_ || stopping_) return false;
  if (wanted_) return true;
  if (now_() < stale_from_) return false;
  wanted_ = true;
  asked_ = Clock::now();
  changed_.notify_all();
  return true;
}

void Refresher::request() noexcept {
  const std::lock_guard lock(mutex_);
  ask();
}

void Refresher::request_and_wait() noexcept {
  std::unique_lock lock(mutex_);
  if (!ask()) return;
  changed_.wait_until(lock, asked_ + limits_.patience,
                      [this, looks = looks_] { return looks_ != looks || stopping_; });
}

void Refresher::work() noexcept {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!changed_.wait_for(lock, limits_.idle, [this] { return wanted_ || stopping_; })) {
      wanted_ = true;
      asked_ = Clock::now();
    }
    if (stopping_) break;
    stale_from_ = now_() + limits_.fresh_for;
    lock.unlock();
    const bool has_more = refresh_();
    lock.lock();
    wanted_ = has_more;
    if (has_more) asked_ = Clock::now();
    ++looks_;
    changed_.notify_all();
  }
}

bool Refresher::stop(std::chrono::milliseconds limit) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  return thread_.ends_within(limit);
}

}  // namespace reshardfs
