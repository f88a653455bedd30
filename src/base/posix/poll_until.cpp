// SPDX-License-Identifier: Apache-2.0
#include "base/posix/poll_until.h"

#include <algorithm>
#include <cerrno>
#include <limits>

namespace reshardfs {
namespace {

using std::chrono::milliseconds;

/// For poll(2).
int milliseconds_until(PollClock::time_point deadline) noexcept {
  if (deadline == kForever) return -1;
  constexpr milliseconds kMost(std::numeric_limits<int>::max());
  const auto left = std::chrono::ceil<milliseconds>(deadline - PollClock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), kMost).count());
}

}  // namespace

PollClock::time_point deadline_after(milliseconds limit) noexcept {
  if (limit < milliseconds(0)) return kForever;
  const PollClock::time_point now = PollClock::now();
  return limit < std::chrono::floor<milliseconds>(kForever - now) ? now + limit : kForever;
}

bool poll_until(std::span<pollfd> files, PollClock::time_point deadline) noexcept {
  for (;;) {
    const int ready = ::poll(files.data(), files.size(), milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (deadline != kForever && PollClock::now() >= deadline) return false;
  }
}

bool wait_readable(int file, PollClock::time_point deadline) noexcept {
  pollfd polled{.fd = file, .events = POLLIN, .revents = 0};
  return poll_until({&polled, 1}, deadline);
}

}  // namespace reshardfs
