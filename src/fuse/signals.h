// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>

#include "fuse/wake_pipe.h"

namespace reshardfs {

/// The signal that gets a worker out of waiting for the kernel's next request. Nothing else is
/// done with it, and a process that has no handler for it ignores it.
inline constexpr int kKickSignal = SIGURG;

/// While it lives, SIGINT, SIGTERM and SIGHUP become Event::kSignal, whichever thread they reach
/// (libraries have threads too, so blocking them in our own would not do). Signals that were
/// ignored before (nohup, a shell's background jobs) stay ignored. One at a time.
class SignalGuard {
 public:
  explicit SignalGuard(const WakePipe& pipe);
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard();

 private:
  static constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, kKickSignal};

  std::array<struct sigaction, kSignals.size()> previous_{};
};

}  // namespace reshardfs
