// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <span>

namespace reshardfs {

using PollClock = std::chrono::steady_clock;

/// A time that never comes.
inline constexpr PollClock::time_point kForever = PollClock::time_point::max();

/// @param limit from now on; negative: for ever.
PollClock::time_point deadline_after(std::chrono::milliseconds limit) noexcept;

/// Waits until one of them is ready, as `revents` says, through signals.
/// @return false if none was until the deadline.
bool poll_until(std::span<pollfd> files, PollClock::time_point deadline) noexcept;

/// The same for one file that is to be read.
bool wait_readable(int file, PollClock::time_point deadline) noexcept;

}  // namespace reshardfs
