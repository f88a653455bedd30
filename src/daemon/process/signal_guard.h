// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/process/signals.h"
#include "fuse/wake_pipe.h"

namespace reshardfs {

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

/// While it exists, SIGINT, SIGTERM, SIGHUP and kCallerGoneSignal become events on any thread that
/// they reach (libraries have threads too, so blocking signals in our own would not suffice).
/// Signals that were ignored before (nohup, a shell's background jobs) stay ignored, except for
/// SIGHUP as Event::kHangup. A guard inside another takes the signals until it ends.
class SignalGuard {
 public:
  SignalGuard(const WakePipe& pipe, Hangup hangup, MoreSignals more = {});
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard() = default;

 private:
  /// Where the handlers write to.
  class EventPipe {
   public:
    explicit EventPipe(int pipe) noexcept;
    EventPipe(const EventPipe&) = delete;
    EventPipe& operator=(const EventPipe&) = delete;
    ~EventPipe();

   private:
    const int before_;  ///< of the guard around this one; -1: there is none
  };

  EventPipe pipe_;  // in use until the handlers are gone
  SignalHandlers handlers_;
};

}  // namespace reshardfs
