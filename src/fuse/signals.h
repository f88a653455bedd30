// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

#include "fuse/caller.h"
#include "fuse/wake_pipe.h"

namespace reshardfs {

/// The signal that gets a worker out of waiting for the kernel's next request. Nothing else is
/// done with it, and a process that has no handler for it ignores it.
inline constexpr int kKickSignal = SIGURG;

/// SIGUSR2 with this value, as sigqueue(3) sends it, is Event::kReplace.
inline constexpr int kReplaceValue = 1;

/// What SIGHUP becomes: Event::kSignal or Event::kHangup.
enum class Hangup : std::uint8_t { kEnds, kEvent };

/// Further signals that become events: SIGUSR2 (Event::kReload, or Event::kReplace) and SIGCHLD
/// (Event::kChild).
struct MoreSignals {
  bool reload = false;
  bool children = false;
};

/// While it lives, SIGINT, SIGTERM, SIGHUP and kCallerGoneSignal become events, whichever thread
/// they reach (libraries have threads too, so blocking them in our own would not do). Signals that
/// were ignored before (nohup, a shell's background jobs) stay ignored, save for SIGHUP as
/// Event::kHangup. One at a time.
class SignalGuard {
 public:
  SignalGuard(const WakePipe& pipe, Hangup hangup, MoreSignals more = {});
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard();

 private:
  static constexpr std::array<int, 8> kSignals = {SIGINT,  SIGTERM, SIGHUP,      SIGPIPE,
                                                  SIGUSR2, SIGCHLD, kKickSignal, kCallerGoneSignal};

  std::array<struct sigaction, kSignals.size()> previous_{};
};

/// Threads started while it lives do not take the signals that end the mount: a source read that
/// is broken off by them might fail.
class SignalsBlocked {
 public:
  SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked();

 private:
  sigset_t previous_{};
};

}  // namespace reshardfs
