// SPDX-License-Identifier: Apache-2.0
#include "base/posix/file_lock.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace reshardfs {

LockState try_lock(int file, LockMode mode) noexcept {
  const int operation = mode == LockMode::kShared ? LOCK_SH : LOCK_EX;
  while (::flock(file, operation | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? LockState::kHeldElsewhere : LockState::kUnsupported;
  }
  return LockState::kTaken;
}

std::optional<FileLock> FileLock::take(int file, Patience patience,
                                       const std::stop_token& stop) noexcept {
  using namespace std::chrono_literals;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + patience;
  for (std::chrono::microseconds pause = 20us;; pause = std::min(2 * pause, 5000us)) {
    // A system call that waits could not be given up.
    const LockState state = try_lock(file);
    if (state == LockState::kTaken) return FileLock(file);
    if (state == LockState::kUnsupported) return FileLock(-1);
    if (stop.stop_requested() || Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

FileLock::~FileLock() {
  if (file_ >= 0) ::flock(file_, LOCK_UN);
}

}  // namespace reshardfs
