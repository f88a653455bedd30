// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_lock.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace reshardfs {

LockState try_lock(int file) noexcept {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? LockState::kHeldElsewhere : LockState::kUnsupported;
  }
  return LockState::kTaken;
}

std::optional<CacheLock> CacheLock::take(int file, Patience patience,
                                         const std::stop_token& stop) noexcept {
  using namespace std::chrono_literals;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + patience;
  for (std::chrono::microseconds pause = 20us;; pause = std::min(2 * pause, 5000us)) {
    // A system call that waits could not be given up.
    const LockState state = try_lock(file);
    if (state == LockState::kTaken) return CacheLock(file);
    if (state == LockState::kUnsupported) return CacheLock(-1);
    if (stop.stop_requested() || Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

CacheLock::~CacheLock() {
  if (file_ >= 0) ::flock(file_, LOCK_UN);
}

}  // namespace reshardfs
